"""Which wheels the Python packages of a manifest come to, beside those every image has.

What cannot be had is told in words that name the package, before anything is built.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.recipe import GUEST_PYTHON
from branchpoint_vmruntime.image.wanted import project_name
from branchpoint_vmruntime.image.wheels import target_options

_NO_INDEX = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError"
    r"|Max retries exceeded|Failed to establish a new connection|Could not fetch URL"
)
_NO_WHEEL = re.compile(r"No matching distribution found for (?P<what>[^\n]+?)\.?$", re.MULTILINE)
_NO_DEB = (
    re.compile(r"Unable to locate package (?P<what>\S+)"),
    re.compile(r"Couldn't find any package by (?:glob|regex) '(?P<what>[^']+)'"),
    re.compile(r"Package '?(?P<what>[^\s']+)'? has no installation candidate"),
)
_NO_SPACE = re.compile(r"No space left on device|don't have enough free space|Disk quota exceeded")

SPACE_HINT = "free some space, or name a roomier folder in BRANCHPOINT_HOME"
INDEX_HINT = "check that pip works here and reaches its index: python -m pip download pip"


def resolve_wheels(wanted: Sequence[str], lock: Sequence[str], scratch: Path) -> tuple[str, ...]:
    """Lines like those of `lock`, sorted, of what is needed for `wanted` and is not in it.

    What the lock has stays at the version it has. ImageBuildError if that cannot be.
    """
    report, constraints = scratch / "report.json", scratch / "constraints.txt"
    constraints.write_text("".join(f"{line.split()[0]}\n" for line in lock))
    try:
        run_command(
            [
                sys.executable, "-P", "-m", "pip", "install", "--quiet", "--dry-run",
                "--ignore-installed", "--disable-pip-version-check", "--retries", "2",
                "--report", report, "--target", scratch / "target", "--constraint", constraints,
                *target_options(), "--", *wanted,
            ],
            purpose="find the Python packages of the manifest",
            hint=INDEX_HINT,
        )  # fmt: skip
    except ImageBuildError as error:
        raise explained_pip(error) from error
    locked = {project_name(line) for line in lock}
    found = [_line(item) for item in json.loads(report.read_text())["install"]]
    return tuple(sorted(line for line in found if project_name(line) not in locked))


def _line(item: Any) -> str:
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name.lower()}=={version} --hash=sha256:{digest}"


def explained_fetch(error: ImageBuildError) -> ImageBuildError:
    """What pip said, in words if it could not fetch or keep what there is."""
    said = str(error)
    if _NO_SPACE.search(said):
        return ImageBuildError(f"the disk is full: {said}", hint=SPACE_HINT)
    if _NO_INDEX.search(said):
        return ImageBuildError(
            f"the index of Python packages does not answer\n{said}", hint=INDEX_HINT
        )
    return error


def explained_pip(error: ImageBuildError) -> ImageBuildError:
    """What pip said, in words that name the package it is about."""
    said, fetched = str(error), explained_fetch(error)
    if fetched is not error:
        return fetched
    if match := _NO_WHEEL.search(said):
        return ImageBuildError(
            f"there is no Python package {match['what']} as a wheel for Python {GUEST_PYTHON} on "
            f"x86-64 Linux\n{said}",
            hint="check its name and version in the manifest's `image`; what has no wheel can be "
            "installed in a notebook, and kept with %image add",
        )
    if "ResolutionImpossible" in said or "conflict" in said:
        return ImageBuildError(
            f"the Python packages of the manifest cannot be together\n{said}",
            hint="ask for other versions; what every image has stays at its version",
        )
    return error


def explained_apt(error: ImageBuildError) -> ImageBuildError:
    """What apt said of the manifest's packages, in words that name the package."""
    said = str(error)
    if _NO_SPACE.search(said):
        return ImageBuildError(f"the disk is full: {said}", hint=SPACE_HINT)
    for pattern in _NO_DEB:
        if match := pattern.search(said):
            return ImageBuildError(
                f"Debian has no package {match['what']}\n{said}",
                hint="check its name in the manifest's `image`: apt-cache search WORD",
            )
    return error
