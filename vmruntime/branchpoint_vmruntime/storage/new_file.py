"""A file that is there whole or not at all; a process that is killed leaves nothing of it.

It has no name until it is whole. Where the file system knows no such files it has a hidden one, and
what was left of that goes the next time.
"""

import errno
import fcntl
import glob
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NOT_HERE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
# Of the name it is to have, so that the hidden one is never longer than file systems take.
_HIDDEN_CHARACTERS = 60


@contextmanager
def new_file(path: Path, *, mode: int = 0o600, replaces: bool = False) -> Generator[BinaryIO]:
    """A file to write into, by default only its owner may read; on disk, and named, on leaving.

    OSError if it cannot be made, or if there is one of that name by then, which stays unless this
    one `replaces` it. On an error in the block nothing is made.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fd = os.open(path.parent, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            with _hidden(path, mode) as (file, part):
                yield file
                _finish(file)
                (_replace if replaces else _name)(part.name, path.name, folder)
        else:
            with open(fd, "wb") as file:  # noqa: PTH123
                yield file
                _finish(file)
                nameless = f"/proc/self/fd/{fd}"
                if replaces:
                    _name_over(nameless, path, folder, file)
                else:
                    _name(nameless, path.name, folder)
    finally:
        os.close(folder)


@contextmanager
def _hidden(path: Path, mode: int) -> Generator[tuple[BinaryIO, Path]]:
    _remove_left(path)
    part = _beside(path)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123
            _lock(file)
            yield file, part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:_HIDDEN_CHARACTERS]}.{secrets.token_hex(4)}.part")


def _lock(file: BinaryIO) -> None:
    """Let whoever finds it tell that it is being written."""
    # A file system that knows no locks refuses them to whoever would remove it, too.
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)


def _remove_left(path: Path) -> None:
    """Remove what those left that were killed while they wrote a file of this name."""
    like = f".{glob.escape(path.name[:_HIDDEN_CHARACTERS])}.????????.part"
    for left in path.parent.glob(like):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _name(source: str, name: str, folder: int) -> None:
    try:
        # Not a rename: that would replace what another has put there meanwhile.
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    except OSError as error:
        if error.errno != errno.EPERM or os.path.lexists(f"/proc/self/fd/{folder}/{name}"):
            raise
        # This file system knows no second names.
        os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
    try:
        _keep_names(folder)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def _name_over(nameless: str, path: Path, folder: int, file: BinaryIO) -> None:
    """Name it as what it replaces, by way of a hidden name: a link alone replaces nothing."""
    _remove_left(path)
    _lock(file)
    part = _beside(path)
    os.link(nameless, part.name, dst_dir_fd=folder, follow_symlinks=True)
    try:
        _replace(part.name, path.name, folder)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _replace(source: str, name: str, folder: int) -> None:
    os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
    _keep_names(folder)


def _keep_names(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some file systems do not have it of folders; that is no reason to have no file.
        if error.errno != errno.EINVAL:
            raise
