"""The file a machine's disk writes to: empty at first, with room set aside for a full host."""

import contextlib
import ctypes
import os
import shutil
from pathlib import Path

# A guest whose disk cannot be written is stopped by QEMU. What a kernel writes of its own accord
# (its history, the file system's journal) is half a megabyte a cell.
RESERVE_BYTES = 8 << 20

# <linux/falloc.h>
_KEEP_SIZE = 0x01

_libc = ctypes.CDLL(None, use_errno=True)


def make_overlay(path: Path, template: Path) -> Path:
    """A fresh overlay at that path; room is set aside beyond its end if the file system can."""
    try:
        shutil.copyfile(template, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    with path.open("r+b") as file:
        start = ctypes.c_long(os.fstat(file.fileno()).st_size)
        _libc.fallocate(
            ctypes.c_int(file.fileno()),
            ctypes.c_int(_KEEP_SIZE),
            start,
            ctypes.c_long(RESERVE_BYTES),
        )
    return path


def give_back_reserve(path: Path) -> None:
    """Give back what is set aside beyond the end of a file that no longer changes."""
    with contextlib.suppress(OSError):
        os.truncate(path, path.stat().st_size)
