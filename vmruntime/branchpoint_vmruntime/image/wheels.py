"""The guest's Python packages: wheels for its Python, put into the tree by the host's pip."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.native import NativeRunner
from branchpoint_vmruntime.image.recipe import GUEST_PYTHON

SITE_PACKAGES = Path("usr/local/lib") / f"python{GUEST_PYTHON}" / "dist-packages"
# pip takes a platform by its letter: a wheel tagged for an older C library needs that tag named.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)
# A script that pip names after the Python that runs it, whichever Python it installs for.
HOST_PIP = f"pip3.{sys.version_info.minor}"
GUEST_PIP = f"pip{GUEST_PYTHON}"
PIP_CONF = """\
[global]
break-system-packages = true
disable-pip-version-check = true
root-user-action = ignore
"""


def target_options() -> list[str]:
    """Options of pip that make it choose for the guest instead of the host."""
    options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", GUEST_PYTHON]
    for platform in PLATFORMS:
        options += ["--platform", platform]
    return options


def install_wheels(tree: Path, requirements: Sequence[str], scratch: Path) -> None:
    """Install the locked wheels where the guest's own pip would have put them."""
    lock = scratch / "requirements.lock"
    lock.write_text("\n".join([*requirements, ""]))
    target = scratch / "site"
    run_command(
        [
            sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps",
            "--no-warn-conflicts", "--require-hashes", "--target", target, *target_options(),
            "--requirement", lock,
        ],
        purpose="install the guest's Python packages",
        hint="check that pip works and reaches its index: python -m pip download pip",
    )  # fmt: skip
    place = tree / SITE_PACKAGES
    place.mkdir(parents=True, exist_ok=True)
    move_children(target / "bin", tree / "usr/local/bin")
    move_children(target / "share", tree / "usr/local/share")
    move_children(target, place)
    for record in place.glob("*.dist-info/RECORD"):
        record.write_text(relocate_record(record.read_text()))
    scripts = tree / "usr/local/bin"
    if (scripts / HOST_PIP).exists():
        (scripts / HOST_PIP).rename(scripts / GUEST_PIP)
    for script in scripts.iterdir():
        script.write_bytes(with_guest_python(script.read_bytes()))
    (tree / "etc/pip.conf").write_text(PIP_CONF)


def check_wheels(tree: Path) -> None:
    """ImageBuildError if a package lacks another: pip judged conditions by the host's Python."""
    NativeRunner(tree).run(
        f"usr/bin/python{GUEST_PYTHON}", "-B", "-S", "-m", "pip", "check",
        purpose="have all that the manifest's Python packages need; name what is missing too",
        environment={"PYTHONPATH": str(tree / SITE_PACKAGES)},
    )  # fmt: skip


def move_children(source: Path, place: Path) -> None:
    """Move what is in a folder into another, which may have folders of the same names."""
    if not source.is_dir():
        return
    place.mkdir(parents=True, exist_ok=True)
    for child in sorted(source.iterdir()):
        target = place / child.name
        if child.is_dir() and target.is_dir():
            move_children(child, target)
        elif target.exists():
            raise ImageBuildError(f"two packages want to be {target}")
        else:
            shutil.move(child, target)
    if not any(source.iterdir()):
        source.rmdir()


def relocate_record(record: str) -> str:
    r"""A RECORD for the guest's layout: scripts lie one folder further up and are not the host's.

    >>> relocate_record("../../bin/ttx,sha256=x,1\na/__init__.py,sha256=y,2\n")
    '../../../bin/ttx,,\na/__init__.py,sha256=y,2\n'
    """
    lines = [
        f"../{line.split(',')[0]},,".replace(f"/{HOST_PIP},", f"/{GUEST_PIP},")
        if line.startswith("../../")
        else line
        for line in record.splitlines()
    ]
    return "".join(f"{line}\n" for line in sorted(lines))


def with_guest_python(script: bytes) -> bytes:
    r"""A console script that runs under the guest's Python.

    >>> with_guest_python(b"#!/home/me/.venv/bin/python\nimport x\n")
    b'#!/usr/bin/python3\nimport x\n'
    """
    first, newline, rest = script.partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        return b"#!/usr/bin/python3" + newline + rest
    if first == b"#!/bin/sh" and rest.startswith(b"'''exec' "):
        # pip's form for an interpreter whose path is long or has a space in it.
        return b"#!/usr/bin/python3\n" + rest.split(b"\n", 2)[2]
    return script
