"""Where the project's own files are, for the tests that read them."""

import subprocess
import tomllib
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


def tracked_files() -> list[Path]:
    """What git tracks and is still there; in a tree without git, every file that is not hidden."""
    try:
        command = ["git", "-C", str(ROOT), "ls-files", "-z"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [path for path in ROOT.rglob("[!.]*") if path.is_file()]
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]
