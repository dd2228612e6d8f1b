"""Where the project's own files are, for the tests that read them."""

import os
import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE_FOLDERS = ("kernel", "nbext", "vmruntime")


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages() -> list[Path]:
    """The folders of the top-level packages."""
    found = (path.parent for name in SOURCE_FOLDERS for path in (ROOT / name).glob("*/__init__.py"))
    return sorted(found)


def tracked_files(root: Path = ROOT) -> list[Path]:
    """What git tracks and is still there; what was written and not made, where git tells nothing.

    It may not be installed, a copy may have come without what it keeps, and it tells nothing of a
    checkout within another one, which does not track it.
    """
    paths = [path for path in _listed(root) if path.is_file()]
    return paths if root / "pyproject.toml" in paths else list(_written(root))


def environment_for_git() -> dict[str, str]:
    """What git is run in: of what a user has set up nothing, and no hook's repository."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return mine | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def _listed(root: Path) -> list[Path]:
    # Who runs the tests need not be who made the checkout.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment_for_git()
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return [root / name for name in done.stdout.split("\0") if name]


def _written(root: Path) -> Iterator[Path]:
    made = [line.rstrip("/") for line in (root / ".gitignore").read_text().split()]
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        names = [*folders, *files]
        left_out = {
            name
            for name in names
            if name.startswith(".") or _is_one_of(made, name, (here / name).relative_to(root))
        }
        # What is taken out of the list is not gone into.
        folders[:] = [name for name in folders if name not in left_out]
        yield from (here / name for name in files if name not in left_out)


def _is_one_of(patterns: list[str], name: str, path: Path) -> bool:
    return any(fnmatch(path.as_posix() if "/" in it else name, it) for it in patterns)
