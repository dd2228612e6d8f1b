"""Where on this computer a file is that a cell names. Pure."""

from pathlib import Path

from branchpoint_vmruntime.errors import UsageError


def place(folder: Path, name: str) -> Path:
    """The file of that name: in the notebook's folder unless it says where.

    UsageError if nothing can be called that.
    """
    if "\0" in name:
        raise UsageError(f"{name!r} cannot name a file")
    try:
        return folder / Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{name!r} cannot be found: {error}") from error


def shown(folder: Path, path: Path) -> Path:
    """The path as it is told to whoever works in that folder."""
    return path.relative_to(folder) if path.is_relative_to(folder) else path
