"""Where files that come in go: written beside, and put in place when they are whole."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

HOME = Path("/root")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class FailedError(Exception):
    """It cannot be done; the text is for the host's user."""


class Aside:
    """A file that is written beside the one it will replace."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._path = target.with_name(f".branchpoint-{os.urandom(8).hex()}.part")
        self.file = self._path.open("xb")

    def put_in_place(self, mode: int, *, sync: bool = False, time_s: int | None = None) -> None:
        """Give it its name: before this it is not there, after this it is there whole."""
        self.file.flush()
        if sync:
            os.fsync(self.file.fileno())
        os.fchmod(self.file.fileno(), mode & 0o777)
        if time_s is not None:
            os.utime(self.file.fileno(), (time_s, time_s))
        self._path.rename(self.target)

    def close(self) -> None:
        """Leave nothing, unless it was put in place."""
        # What could not be written is tried once more on closing, and fails once more.
        with suppress(OSError):
            self.file.close()
        self._path.unlink(missing_ok=True)


@contextmanager
def aside(target: Path) -> Generator[Aside]:
    """For writing a file that is nowhere until it is whole."""
    opened = Aside(target)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def placed(path: str, name: str, size: int) -> Generator[Aside]:
    """The same for a path, or for `name` in it if it is a folder.

    Folders above it are made, and go again if it fails. FailedError if there is no room.
    """
    target = located(path)
    if path.endswith("/") or target.is_dir():
        target /= name
    if target.is_dir():
        raise FailedError(f"{target} is a folder: name the file")
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        make_folder(target.parent)
        require_room(target.parent, size)
        with aside(target) as opened:
            yield opened
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def located(path: str) -> Path:
    """The absolute path that is meant, without links: what is relative is below `HOME`."""
    inside = "." if path == "~" else path.removeprefix("~/")
    # Not `resolve`, which raises for links in a circle; those are complained of when opened.
    return Path(os.path.realpath(HOME / inside))


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise FailedError(f"{error.filename} is no folder") from error


def require_room(folder: Path, size: int) -> None:
    """FailedError if so many bytes do not fit."""
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if size > free:
        raise FailedError(
            f"the machine has no room at {folder}: {size >> 20} MB are to come, "
            f"{free >> 20} MB are free"
        )


def words_of(error: OSError) -> str:
    """What went wrong with a file, for the host's user."""
    if error.errno in _NO_ROOM:
        return "the machine's disk is full"
    return f"{error.filename or 'the file'}: {error.strerror}"
