"""Sparse files: copy one without its holes, make holes where there is nothing but zeros."""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# <linux/fs.h>: _IOW(0x94, 9, int); <linux/falloc.h>: KEEP_SIZE | PUNCH_HOLE.
_FICLONE = 0x40049409
_PUNCH = 0x01 | 0x02
_BLOCK = 64 * 1024
_PIECE = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def copy_sparse(source: Path, target: Path) -> bool:
    """Copy a file to a new one.

    True if the file system could share the blocks, so that nothing was copied.
    """
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            size = os.fstat(old.fileno()).st_size
            new.truncate(size)
            for start, end in data_ranges(old.fileno(), size):
                copy_range(
                    old.fileno(),
                    new.fileno(),
                    source_offset=start,
                    target_offset=start,
                    size=end - start,
                )
            return False
        return True


def data_ranges(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where an open file of that size holds data, holes left out: from each start to its end.

    Two askings may differ though nothing was written: what counts is to be asked once. Nothing
    from `size` on is told, however much longer the file is.
    """
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        if start >= size:
            return
        end = min(size, os.lseek(fd, start, os.SEEK_HOLE))
        yield start, end


def copy_range(
    source: int, target: int, *, source_offset: int, target_offset: int, size: int
) -> None:
    """Copy bytes from one open file into another without taking them through this process."""
    done = 0
    while done < size:
        copied = os.copy_file_range(
            source, target, size - done, source_offset + done, target_offset + done
        )
        if copied == 0:
            raise OSError("a file became shorter while it was copied")
        done += copied


def read_into(fd: int, buffer: memoryview, offset: int) -> None:
    """Fill the buffer from an open file; OSError if that ends before."""
    while buffer:
        size = os.preadv(fd, [buffer], offset)
        if not size:
            raise OSError(errno.EIO, "a file became shorter while it was read")
        buffer, offset = buffer[size:], offset + size


def punch_hole(fd: int, offset: int, size: int) -> None:
    """Make a range read as zeros, giving its blocks back where the file system can."""
    arguments = (ctypes.c_int(fd), ctypes.c_int(_PUNCH), ctypes.c_long(offset), ctypes.c_long(size))
    if _libc.fallocate(*arguments) != 0:
        _write_zeros(fd, offset, size)


def _write_zeros(fd: int, offset: int, size: int) -> None:
    # In pieces, and each for as often as it takes: a write may stop short, at 2 GiB it always does.
    zeros = memoryview(bytes(min(size, _PIECE)))
    end = offset + size
    while offset < end:
        offset += os.pwrite(fd, zeros[: end - offset], offset)


def dig_holes(path: Path) -> int:
    """Give back the blocks of a file that hold nothing but zeros; the bytes given back."""
    dug = 0
    buffer = memoryview(bytearray(_PIECE))
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for start, end in list(data_ranges(file.fileno(), size)):
            first = -(-start // _BLOCK) * _BLOCK
            last = end // _BLOCK * _BLOCK
            for at in range(first, last, _PIECE):
                piece = buffer[: last - at]
                read_into(file.fileno(), piece, at)
                words = np.frombuffer(piece, dtype="<u8").reshape(-1, _BLOCK // 8)
                empty = np.flatnonzero(~words.any(axis=1))
                for block in empty.tolist():
                    punch_hole(file.fileno(), at + block * _BLOCK, _BLOCK)
                dug += len(empty) * _BLOCK
    return dug


def bytes_on_disk(path: Path) -> int:
    """What a file takes on disk, holes left out."""
    return path.stat().st_blocks * 512
