"""A memory layer: the pages of a checkpoint that differ from its parent's, in a file of their own.

Little-endian. Header: magic `BPMEM002`, page size (u32), number of runs (u32), memory size in bytes
(u64), CRC-32 of all that and the runs (u32). Then the runs: first page (u64), number of pages
(u32), 1 if they are all zero, else 0 (u32). Then, from the next multiple of the page size, the
pages of the runs that are not zero, in order.
"""

import itertools
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.memory.dirty import PAGE, Run, total_size
from branchpoint_vmruntime.memory.sparse import copy_range, punch_hole, read_into

_HEADER = struct.Struct("<8sIIQ")
_CHECK = struct.Struct("<I")
_RUN = struct.Struct("<QII")
_MAGIC = b"BPMEM002"
_PIECE_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class PageRun:
    """Neighbouring pages of a layer; `zero` if they hold nothing but zeros and so take no room."""

    first: int
    count: int
    zero: bool


def differing_runs(
    runs: Sequence[Run], pages: memoryview, parent: int
) -> list[tuple[PageRun, memoryview]]:
    """Of the pages copied from a machine, those that differ from the parent's, with their bytes.

    `pages` holds the runs' bytes one after another; `parent` is the parent's whole memory, open for
    reading. OSError if that cannot be read or is shorter.
    """
    kind = _kinds(runs, pages, parent)
    number = _numbers(runs)
    edges = np.flatnonzero((np.diff(kind) != 0) | (np.diff(number) != 1)) + 1
    bounds = [0, *edges.tolist(), len(kind)] if len(kind) else []
    return [
        (
            PageRun(int(number[first]), last - first, bool(kind[first] == 2)),
            pages[first * PAGE : last * PAGE],
        )
        for first, last in itertools.pairwise(bounds)
        if kind[first]
    ]


def _kinds(runs: Sequence[Run], pages: memoryview, parent: int) -> npt.NDArray[np.int8]:
    """Of each page of the runs: 0 if it is as in the parent, 2 if it is all zero now, or 1."""
    kinds = np.empty(total_size(runs) // PAGE, np.int8)
    first = 0
    for piece in _parents_pieces(runs, parent):
        old = _as_pages(piece)
        last = first + len(old)
        new = _as_pages(pages[first * PAGE : last * PAGE])
        changed = (new != old).any(axis=1)
        zero = ~new.any(axis=1)
        kinds[first:last] = np.where(changed, np.where(zero, 2, 1), 0)
        first = last
    return kinds


def _parents_pieces(runs: Sequence[Run], parent: int) -> Iterator[memoryview]:
    """What the parent holds where the runs are, one after another; a piece is good until the next.

    Read and not mapped: where a mapping cannot give a page, for a failing disk or for want of room
    in one that is memory, the whole process is killed, and every machine with it.
    """
    buffer = memoryview(bytearray(_PIECE_BYTES))
    filled = 0
    for run in runs:
        done = 0
        while done < run.size:
            part = buffer[filled : filled + run.size - done]
            read_into(parent, part, run.offset + done)
            done += len(part)
            filled += len(part)
            if filled == len(buffer):
                yield buffer
                filled = 0
    if filled:
        yield buffer[:filled]


def _numbers(runs: Sequence[Run]) -> npt.NDArray[np.int64]:
    """The number of each page of the runs in the whole memory."""
    offsets = np.array([run.offset for run in runs], np.int64) // PAGE
    counts = np.array([run.size for run in runs], np.int64) // PAGE
    before = np.cumsum(counts) - counts
    starts = np.repeat(offsets - before, counts)
    return starts + np.arange(len(starts))


def _as_pages(data: memoryview) -> npt.NDArray[np.uint64]:
    return np.frombuffer(data, dtype="<u8").reshape(-1, PAGE // 8)


def layer_pieces(
    memory_bytes: int, runs: Sequence[tuple[PageRun, memoryview]]
) -> Iterator[bytes | memoryview]:
    """What a layer file holds, piece by piece in order."""
    table = b"".join(_RUN.pack(run.first, run.count, run.zero) for run, _ in runs)
    facts = _HEADER.pack(_MAGIC, PAGE, len(runs), memory_bytes)
    head = facts + _CHECK.pack(zlib.crc32(table, zlib.crc32(facts))) + table
    yield head + b"\0" * (-len(head) % PAGE)
    for run, data in runs:
        if not run.zero:
            yield data


def write_layer(path: Path, memory_bytes: int, runs: Sequence[tuple[PageRun, memoryview]]) -> int:
    """Write a layer file; the number of bytes written. The caller syncs and publishes it."""
    with path.open("xb") as file:
        for piece in layer_pieces(memory_bytes, runs):
            file.write(piece)
        return file.tell()


def read_runs(path: Path, memory_bytes: int) -> list[tuple[PageRun, int]]:
    """The runs of a layer file, each with where its pages start in the file.

    DamagedError if the file is not what `write_layer` wrote for a memory of that size.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        runs = _read_table(path, file, size, memory_bytes)
        start = file.tell()
    start += -start % PAGE
    placed: list[tuple[PageRun, int]] = []
    for run in runs:
        placed.append((run, start))
        start += 0 if run.zero else run.count * PAGE
    if start != size:
        raise DamagedError(f"{path} should hold {start} bytes and holds {size}")
    return placed


def _read_table(path: Path, file: BinaryIO, size: int, memory_bytes: int) -> list[PageRun]:
    facts, check = file.read(_HEADER.size), file.read(_CHECK.size)
    if len(check) != _CHECK.size:
        raise DamagedError(f"{path} is cut short")
    magic, page, count, of_bytes = _HEADER.unpack(facts)
    if magic != _MAGIC or page != PAGE:
        raise DamagedError(f"{path} is not a memory layer of {PAGE}-byte pages")
    # Compared before reading: a damaged count must not have gigabytes read as the table.
    if file.tell() + count * _RUN.size > size:
        raise DamagedError(f"{path} is cut short")
    table = file.read(count * _RUN.size)
    if _CHECK.pack(zlib.crc32(table, zlib.crc32(facts))) != check:
        raise DamagedError(f"{path} does not say what was written: its checksum is wrong")
    if of_bytes != memory_bytes:
        raise DamagedError(f"{path} is of a memory of {of_bytes} bytes, not of {memory_bytes}")
    return [PageRun(first, n, bool(zero)) for first, n, zero in _RUN.iter_unpack(table)]


def apply_layer(path: Path, flat: int) -> int:
    """Write a layer's pages over a flat image open for writing; the number of pages."""
    pages = 0
    with path.open("rb") as file:
        for run, start in read_runs(path, os.fstat(flat).st_size):
            offset, size = run.first * PAGE, run.count * PAGE
            if run.zero:
                punch_hole(flat, offset, size)
            else:
                copy_range(
                    file.fileno(), flat, source_offset=start, target_offset=offset, size=size
                )
            pages += run.count
    return pages
