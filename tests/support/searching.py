"""Looks for byte strings where a machine leaves traces: its memory, and the files of a home."""

import base64
import mmap
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

_CHUNK_BYTES = 16 << 20
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r(?!.*\[v)")
# Linux, Documentation/admin-guide/mm/pagemap.rst.
_PRESENT, _SWAPPED, _OF_A_FILE = (np.uint64(1 << bit) for bit in (63, 62, 61))


def traces(word: bytes) -> set[bytes]:
    """A word without special signs, and what is in base64 of whatever it is part of."""
    # The first and last letters of base64 hold bits of what is beside the word.
    return {word} | {base64.b64encode(b"." * k + word)[4:-4] for k in range(3)}


def in_memory(pid: int, needles: Iterable[bytes]) -> set[bytes]:
    """Those that are in a process's memory: all of it, but for pages that still are a file's."""
    wanted, found = set(needles), set[bytes]()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, last in _regions(pid):
            for piece in _pieces(memory.fileno(), first, last, max(map(len, wanted))):
                found |= {needle for needle in wanted - found if needle in piece}
    return found


def in_files(places: Iterable[Path], needles: Iterable[bytes]) -> dict[bytes, set[Path]]:
    """In which files, there or below, each of them is. Links and sockets are passed over."""
    found: dict[bytes, set[Path]] = {needle: set() for needle in needles}
    for place in places:
        for path in (place, *place.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size:
                for needle in _in_file(path, found):
                    found[needle].add(path)
    return found


def _in_file(path: Path, needles: Iterable[bytes]) -> list[bytes]:
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        regions = list(_data_regions(file.fileno(), len(content)))
        return [
            needle
            for needle in needles
            if any(content.find(needle, first, last) >= 0 for first, last in regions)
        ]


def _data_regions(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while at < size:
        try:
            first = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(descriptor, first, os.SEEK_HOLE)
        yield first, at


def _regions(pid: int) -> Iterator[tuple[int, int]]:
    """Neighbouring pages of memory that are no file's, from and to which address."""
    mappings = filter(None, map(_MAPPING.match, Path(f"/proc/{pid}/maps").read_text().splitlines()))
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for first, last in ((int(it[1], 16), int(it[2], 16)) for it in mappings):
            size = 8 * (last - first) // mmap.PAGESIZE
            table = np.frombuffer(
                os.pread(pagemap.fileno(), size, 8 * first // mmap.PAGESIZE), "u8"
            )
            own = ((table & (_PRESENT | _SWAPPED)) != 0) & ((table & _OF_A_FILE) == 0)
            edges = np.flatnonzero(np.diff(own, prepend=False, append=False))
            for start, end in edges.reshape(-1, 2).tolist():
                yield first + start * mmap.PAGESIZE, first + end * mmap.PAGESIZE


def _pieces(descriptor: int, first: int, last: int, longest: int) -> Iterator[bytes]:
    """What a mapping holds, in pieces that overlap by what the longest needle needs."""
    held = b""
    for at in range(first, last, _CHUNK_BYTES):
        try:
            piece = os.pread(descriptor, min(_CHUNK_BYTES, last - at), at)
        except OSError:
            # Such as what lies beyond the end of a mapped file.
            return
        yield held + piece
        held = piece[-longest:]
