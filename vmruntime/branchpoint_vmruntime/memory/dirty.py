"""Which pages of its image a machine has written, read from the outside. Linux, same user.

The image is mapped private, so a page the guest writes becomes anonymous memory of QEMU's; one it
only read, or never touched, still belongs to the file. Source: Linux, Documentation/admin-
guide/mm/pagemap.rst.
"""

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from branchpoint_vmruntime.errors import MachineError

PAGE = mmap.PAGESIZE

# <linux/fs.h>, Linux 6.7: PAGEMAP_SCAN and the categories it knows.
_PAGEMAP_SCAN = 0xC0606610
_PAGE_IS_FILE = 1 << 2
_PAGE_IS_PRESENT = 1 << 3
_PAGE_IS_SWAPPED = 1 << 4
_REGIONS = 4096

_IOV_MAX = 1024


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring pages.

    Where they are in QEMU's address space and in the image, and how many bytes.
    """

    address: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Mapping:
    first: int
    last: int
    offset: int


def dirty_runs(pid: int, image: Path) -> list[Run]:
    """The pages of `image` that the process has written since it mapped it.

    MachineError if it does not map it at all, or ends meanwhile: that must never pass for having
    written nothing.
    """
    try:
        mappings = list(_mappings(pid, image))
        if not mappings:
            raise MachineError(f"process {pid} does not map {image}: what it wrote cannot be told")
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            return [
                Run(first, mapping.offset + first - mapping.first, last - first)
                for mapping in mappings
                for first, last in _regions(pagemap.fileno(), mapping)
            ]
    except (FileNotFoundError, ProcessLookupError) as error:
        raise MachineError(f"process {pid} has ended: what it wrote cannot be told") from error


def total_size(runs: Sequence[Run]) -> int:
    """Bytes in all runs together."""
    return sum(run.size for run in runs)


def _mappings(pid: int, image: Path) -> Iterator[_Mapping]:
    # The table gives the path with every link followed, and line ends escaped.
    name = os.fsencode(image.resolve()).replace(b"\n", b"\\012")
    # In bytes, and by line ends alone: a name may hold whatever else ends a line of text.
    for line in Path(f"/proc/{pid}/maps").read_bytes().split(b"\n"):
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == name:
            first, last = (int(part, 16) for part in fields[0].split(b"-"))
            yield _Mapping(first, last, int(fields[2], 16))


def _regions(pagemap: int, mapping: _Mapping) -> list[tuple[int, int]]:
    try:
        return list(_scan(pagemap, mapping))
    except ProcessLookupError:
        raise
    except OSError:
        # Kernels before 6.7 have no PAGEMAP_SCAN; the table itself says the same, only slower.
        return list(_read_table(pagemap, mapping))


def _scan(pagemap: int, mapping: _Mapping) -> Iterator[tuple[int, int]]:
    """Ranges of written pages, by PAGEMAP_SCAN: the kernel skips what was never touched."""
    regions = (ctypes.c_uint64 * (3 * _REGIONS))()
    start, found = mapping.first, _REGIONS
    # A scan that was not cut short for want of room has come to the end, whatever walk_end says:
    # Linux 6.18 leaves it where its own buffer was last emptied, and the rest would come twice.
    while found == _REGIONS and start < mapping.last:
        arguments = bytearray(
            struct.pack(
                "12Q", 96, 0, start, mapping.last, 0, ctypes.addressof(regions), _REGIONS, 0,
                _PAGE_IS_FILE, _PAGE_IS_FILE, _PAGE_IS_PRESENT | _PAGE_IS_SWAPPED, _PAGE_IS_FILE,
            )
        )  # fmt: skip
        found = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, arguments)
        for place in range(found):
            yield int(regions[3 * place]), int(regions[3 * place + 1])
        (walk_end,) = struct.unpack_from("Q", arguments, 32)
        start = max(walk_end, int(regions[3 * found - 2])) if found else mapping.last


def _read_table(pagemap: int, mapping: _Mapping) -> Iterator[tuple[int, int]]:
    """Ranges of written pages, from the table: bit 63 present, 62 swapped, 61 page of a file."""
    size = (mapping.last - mapping.first) // PAGE * 8
    table = os.pread(pagemap, size, mapping.first // PAGE * 8)
    if len(table) < size:
        # Of a process that has ended the table is empty, which is no error to the kernel.
        raise ProcessLookupError("the table of its pages has an end")
    entries = np.frombuffer(table, dtype="<u8")
    present = (entries >> np.uint64(63)) & np.uint64(1)
    swapped = (entries >> np.uint64(62)) & np.uint64(1)
    of_file = (entries >> np.uint64(61)) & np.uint64(1)
    written = ((present == 1) & (of_file == 0)) | (swapped == 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], written.view("i1"), [0]))))
    for first, last in zip(edges[0::2], edges[1::2], strict=True):
        yield mapping.first + int(first) * PAGE, mapping.first + int(last) * PAGE


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = ctypes.c_ssize_t


class PageBuffer:
    """Memory to copy pages into, touched beforehand so that the copy takes no page faults."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, max(size, PAGE))
        self._memory.madvise(mmap.MADV_HUGEPAGE)
        # MADV_POPULATE_WRITE, Linux 5.14; without it the pages come one by one during the copy.
        anchor = ctypes.c_char.from_buffer(self._memory)
        self._address = ctypes.addressof(anchor)
        _libc.madvise(ctypes.c_void_p(self._address), ctypes.c_size_t(max(size, PAGE)), 23)
        self._anchor = anchor
        self.size = max(size, PAGE)

    def view(self, size: int) -> memoryview:
        """The first `size` bytes."""
        return memoryview(self._memory)[:size]

    def copy_from(self, pid: int, runs: Sequence[Run], *, start: int = 0) -> int:
        """Copy the runs, one after another, from the process's memory; the number of bytes copied.

        In batches by process_vm_readv: 3.5 GB/s, where one read of /proc/PID/mem after another
        gave 0.4. The call lets other threads run: `share_out` says what each may copy where.
        """
        done = 0
        for first in range(0, len(runs), _IOV_MAX):
            batch = runs[first : first + _IOV_MAX]
            size = total_size(batch)
            here = (_Iovec * 1)(_Iovec(self._address + start + done, size))
            there = (_Iovec * len(batch))(*[_Iovec(run.address, run.size) for run in batch])
            read = _libc.process_vm_readv(pid, here, 1, there, len(batch), 0)
            if read != size:
                number = ctypes.get_errno()
                raise OSError(number, f"reading guest memory: {os.strerror(number)}")
            done += size
        return done


def share_out(runs: Sequence[Run], shares: int) -> list[tuple[int, list[Run]]]:
    """The runs in consecutive parts of about equal size, each with where it starts in the whole.

    A run is cut where a part is full.

    >>> [start for start, _ in share_out([Run(0, 0, 8192), Run(20480, 20480, 8192)], 2)]
    [0, 8192]
    """
    room = -(-total_size(runs) // shares // PAGE) * PAGE or PAGE
    parts: list[tuple[int, list[Run]]] = [(0, [])]
    free, done = room, 0
    for run in runs:
        start = 0
        while start < run.size:
            if not free:
                parts.append((done, []))
                free = room
            size = min(free, run.size - start)
            parts[-1][1].append(Run(run.address + start, run.offset + start, size))
            start, free, done = start + size, free - size, done + size
    return parts


def memory_use(pid: int) -> tuple[int, int]:
    """Host memory of a process in bytes.

    Private to it, and shared with others or with the page cache.
    """
    own = shared = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Private_Dirty", "Private_Clean"):
            own += int(rest.split()[0]) << 10
        elif name in ("Shared_Clean", "Shared_Dirty"):
            shared += int(rest.split()[0]) << 10
    return own, shared
