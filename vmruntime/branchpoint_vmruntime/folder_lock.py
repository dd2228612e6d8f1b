"""Holds a folder for this process; the system lets go of it when the process ends, however."""

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path, *, wait: bool) -> Generator[None]:
    """Hold the folder. BlockingIOError if another process does and `wait` is false.

    FileNotFoundError if there is none, or if it was removed by whoever held it before.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # One that was removed can be held as well, by as many as make it anew.
        if not os.path.samestat(os.fstat(fd), folder.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield
    finally:
        os.close(fd)
