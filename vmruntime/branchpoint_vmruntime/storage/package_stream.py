"""The bytes of a file that carries a checkpoint: written and read as a stream, hashed on the way.

`BPPACK01`, the header's length (u32), the header, the sha256 of all that; one zstd frame; the
sha256 of all before it. In the frame, for each file, its pieces: offset (u64), length (u32), the
bytes; where there is no piece it is zero. A piece of no bytes, at the file's size, ends it.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import zstandard

from branchpoint_vmruntime.errors import DamagedError, IncompatibleError
from branchpoint_vmruntime.storage.package_format import (
    MAX_HEADER_BYTES,
    CarriedFile,
    Package,
    header_of,
    parse_header,
)

_FAMILY, _VERSION = b"BPPACK", b"01"
_LEAD = struct.Struct("<8sI")
_PIECE = struct.Struct("<QI")
_DIGEST_BYTES = hashlib.sha256().digest_size
_PIECE_BYTES = 4 << 20
_BLOCK = 64 << 10
_ZEROS = bytes(_BLOCK)
_LEVEL = 3
# What a reader must have at hand; more would be a file that wants to take this host's memory.
_MAX_WINDOW = 32 << 20
_HINT = "export it again, or fetch it once more; nothing was imported"

Heard = Callable[[int], None]
Take = Callable[[int, bytes], None]


class Digest:
    """A sha256 of what comes, and of the zeros between."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.update = self._sha256.update

    def zeros(self, count: int) -> None:
        """So many zero bytes follow."""
        while count > 0:
            self.update(_ZEROS if count >= len(_ZEROS) else _ZEROS[:count])
            count -= len(_ZEROS)

    def digest(self) -> bytes:
        """Of all there was so far."""
        return self._sha256.digest()


class PackageWriter:
    """Writes a package: the header at once, then every file in the header's order."""

    def __init__(self, target: BinaryIO, package: Package) -> None:
        self._target = target
        self._whole = Digest()
        self._buffer = memoryview(bytearray(_PIECE_BYTES))
        cores = len(os.sched_getaffinity(0))
        compressor = zstandard.ZstdCompressor(
            level=_LEVEL, threads=cores if cores > 1 else 0, write_checksum=True
        )
        sink = _Sink(target, self._whole)
        self._frame = compressor.stream_writer(sink, closefd=False)  # pyright: ignore[reportArgumentType]
        header = header_of(package)
        lead = _LEAD.pack(_FAMILY + _VERSION, len(header)) + header
        sink.write(lead + hashlib.sha256(lead).digest())

    def add(
        self, fd: int, file: CarriedFile, ranges: Sequence[tuple[int, int]], heard: Heard
    ) -> None:
        """The next file, open as `fd`; `heard` is told how many bytes of it were read.

        `ranges` are those that `file.data` counts: asked anew, the file system may tell of others.
        DamagedError if it is not what the header says.
        """
        content = Digest()
        reached = 0
        for start, end in ranges:
            content.zeros(start - reached)
            self._add_range(fd, file.name, start, end, content)
            heard(end - start)
            reached = end
        content.zeros(file.size - reached)
        self._frame.write(_PIECE.pack(file.size, 0))
        if content.digest().hex() != file.sha256:
            raise DamagedError(f"{file.name} holds other bytes than were written")

    def finish(self) -> str:
        """End the file; the sha256 it ends with, in hexadecimal."""
        self._frame.flush(zstandard.FLUSH_FRAME)
        digest = self._whole.digest()
        self._target.write(digest)
        return digest.hex()

    def _add_range(self, fd: int, name: str, start: int, end: int, content: Digest) -> None:
        while start < end:
            data = self._read(fd, name, start, end)
            content.update(data)
            for offset, piece in _not_zero(data):
                self._frame.write(_PIECE.pack(start + offset, len(piece)))
                self._frame.write(piece)
            start += len(data)

    def _read(self, fd: int, name: str, start: int, end: int) -> memoryview:
        try:
            size = os.preadv(fd, [self._buffer[: end - start]], start)
        except OSError as error:
            # Or else it would pass for an error of the file that is written.
            raise DamagedError(f"{name} cannot be read: {error.strerror}") from error
        if not size:
            raise DamagedError(f"{name} became shorter while it was read")
        return self._buffer[:size]


class _Sink:
    """Where compressed bytes go."""

    def __init__(self, target: BinaryIO, digest: Digest) -> None:
        self._target = target
        self._digest = digest

    def write(self, data: bytes) -> int:
        self._digest.update(bytes(data))
        self._target.write(data)
        return len(data)


def _not_zero(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The stretches of whole blocks that do not hold zeros alone, and where each is."""
    full = len(view) // _BLOCK
    filled: set[int] = set()
    if full:
        words = np.frombuffer(view, dtype="<u8", count=full * _BLOCK // 8)
        filled.update(np.flatnonzero(words.reshape(full, -1).any(axis=1)).tolist())
    keep = [block in filled for block in range(full)]
    if len(view) % _BLOCK:
        keep.append(any(view[full * _BLOCK :]))
    began: int | None = None
    for block, wanted in enumerate([*keep, False]):
        if wanted and began is None:
            began = block * _BLOCK
        elif not wanted and began is not None:
            yield began, view[began : block * _BLOCK]
            began = None


class PackageReader:
    """Reads a package: the header at once, then each file in the header's order, once."""

    def __init__(self, source: BinaryIO) -> None:
        self._whole = Digest()
        self._source = _Source(source, self._whole)
        self.package = self._header()
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame = decompressor.stream_reader(
            self._source,  # pyright: ignore[reportArgumentType]
            read_size=_PIECE_BYTES,
            read_across_frames=True,
            closefd=False,
        )

    def read(self, file: CarriedFile, take: Take, heard: Heard) -> None:
        """The next file; `take` gets its bytes, each piece with its offset, holes left out.

        DamagedError as soon as it is more than, or in the end is not, what the header says.
        """
        content = Digest()
        reached = stored = 0
        while True:
            offset, length = _PIECE.unpack(self._exactly(_PIECE.size))
            if length == 0 and offset == file.size:
                break
            stored += length
            if not (
                0 < length <= _PIECE_BYTES
                and reached <= offset <= file.size - length
                and stored <= file.data
            ):
                raise _damaged(f"{file.name} holds more than it is said to")
            data = self._exactly(length)
            content.zeros(offset - reached)
            content.update(data)
            take(offset, data)
            heard(length)
            reached = offset + length
        content.zeros(file.size - reached)
        if content.digest().hex() != file.sha256:
            raise _damaged(f"{file.name} holds other bytes than were written")

    def finish(self) -> None:
        """See that nothing follows and that every byte is the one that was written."""
        if self._some(1):
            raise _damaged("more follows than it is said to hold")
        self._source.check()

    def _header(self) -> Package:
        lead = self._source.take(_LEAD.size)
        if len(lead) < _LEAD.size or not lead.startswith(_FAMILY):
            raise _damaged("it does not begin as one")
        magic, length = _LEAD.unpack(lead)
        if magic != _FAMILY + _VERSION:
            raise IncompatibleError(
                f"the file is of version {magic[len(_FAMILY) :].decode('ascii', 'replace')!r};"
                f" this branchpoint reads version {_VERSION.decode()!r}",
                hint="use the branchpoint that wrote it; nothing was imported",
            )
        if length > MAX_HEADER_BYTES:
            raise _damaged(f"its header is said to take {length} bytes")
        header = self._source.take(length)
        told = self._source.take(_DIGEST_BYTES)
        if len(told) < _DIGEST_BYTES:
            raise _cut_short()
        if hashlib.sha256(lead + header).digest() != told:
            raise _damaged("its header is not what was written: the checksum is wrong")
        return parse_header(header)

    def _exactly(self, count: int) -> bytes:
        data = self._some(count)
        while len(data) < count:
            more = self._some(count - len(data))
            if not more:
                raise _cut_short()
            data += more
        return data

    def _some(self, count: int) -> bytes:
        try:
            return self._frame.read(count)
        except zstandard.ZstdError as error:
            raise _damaged(f"it cannot be unpacked: {error}") from error


class _Source:
    """The file but for the digest it ends with; taken in as it is read."""

    def __init__(self, file: BinaryIO, digest: Digest) -> None:
        self._file = file
        self._digest = digest
        self._left = max(0, os.fstat(file.fileno()).st_size - _DIGEST_BYTES)

    def take(self, count: int) -> bytes:
        data = self._read(min(count, self._left))
        self._left -= len(data)
        self._digest.update(data)
        return data

    def read(self, size: int = -1) -> bytes:
        return self.take(self._left if size < 0 else size)

    def check(self) -> None:
        if self._left:
            raise _cut_short()
        if self._read(-1) != self._digest.digest():
            raise _damaged("its bytes are not those that were written: the checksum is wrong")

    def _read(self, count: int) -> bytes:
        try:
            return self._file.read(count)
        except OSError as error:
            # Or else it would pass for an error of the home that is written to.
            raise DamagedError(
                f"it cannot be read: {error.strerror}",
                hint="look at the disk it is on, or fetch it once more; nothing was imported",
            ) from error


def _damaged(why: str) -> DamagedError:
    return DamagedError(f"this is not a file as `branchpoint export` writes it: {why}", hint=_HINT)


def _cut_short() -> DamagedError:
    return DamagedError("the file is cut short", hint=_HINT)
