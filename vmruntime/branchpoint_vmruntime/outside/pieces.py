"""How the contents of files pass over a stream; the guest's `pieces.py` is the other end.

In pieces: a length of 4 bytes, and so many bytes. A length of 0 ends them; the MD5 of all follows.
`BROKEN` as a length ends them too; words follow, why there is no more. What became of what was sent
is answered by fields with zeros between them.
"""

import asyncio
import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from branchpoint_vmruntime.errors import StreamResetError, TransferError
from branchpoint_vmruntime.streams import Stream

BROKEN = 0xFFFFFFFF
PIECE_BYTES = 1 << 20
# The guest's own says why it is no stronger one.
new_digest = partial(hashlib.md5, usedforsecurity=False)
_ANSWER_BYTES = 64 << 10
_DIGITS = 20
_LENGTH = struct.Struct(">I")
_SIZE = struct.Struct(">Q")

Progress = Callable[[int, int | None], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sent:
    """What the guest has made of contents that were sent."""

    path: str
    files: int
    digest: str


async def send_contents(
    stream: Stream, pieces: Iterator[bytes], total: int | None, progress: Progress | None
) -> Sent:
    """Send contents, and wait for what became of them.

    `pieces` is run in threads. TransferError in the guest's words, which may come at any time, or
    as the pieces raise it; MachineError if the stream is cut off.
    """
    sending = asyncio.create_task(_send(stream, pieces, total, progress))
    answering = asyncio.create_task(_answer(stream))
    try:
        await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            await sending
        path, files = await answering
        if not sending.done():
            raise TransferError("the machine's answer came before it had all")
        return Sent(path, files, await sending)
    finally:
        sending.cancel()
        answering.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


class Incoming:
    """Contents that the guest sends. It is not to be believed: not in how much it says it sends."""

    def __init__(self, stream: Stream) -> None:
        self._reader = _Reader(stream)
        self._left = 0

    async def size(self) -> int:
        """How many bytes are to come. To be asked first."""
        (self._left,) = _SIZE.unpack(await self._reader.exactly(_SIZE.size))
        return self._left

    async def copy(self, write: Callable[[bytes], object], progress: Progress | None) -> str:
        """Pass all on to `write`, run in threads; their digest.

        TransferError if they are not whole, MachineError if the stream is cut off.
        """
        digest = new_digest()
        total = self._left

        def take(piece: bytes) -> None:
            digest.update(piece)
            write(piece)

        while piece := await self._next():
            await in_thread(take, piece)
            if progress is not None:
                progress(total - self._left, total)
        if await self._reader.exactly(digest.digest_size) != digest.digest():
            raise TransferError("what arrived is not what was sent")
        if self._left:
            raise TransferError("it was changed while it was read")
        return digest.hexdigest()

    async def _next(self) -> bytes:
        (length,) = _LENGTH.unpack(await self._reader.exactly(_LENGTH.size))
        if length == BROKEN:
            raise TransferError(_text(await self._reader.rest()) or "it could not be read on")
        if length > min(self._left, PIECE_BYTES):
            raise TransferError("the machine sends other than it said")
        self._left -= length
        return await self._reader.exactly(length)


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run something in a thread; when cancelled, not without it: it has files in hand."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()
        raise


class _Reader:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            part = await self._stream.read(count)
            if not part:
                raise StreamResetError("the machine ended the stream too soon")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    async def rest(self) -> bytes:
        """All that comes, up to what an answer may be."""
        data = bytearray()
        while len(data) < _ANSWER_BYTES and (part := await self._stream.read(_ANSWER_BYTES)):
            data += part
        return bytes(data[:_ANSWER_BYTES])


async def _send(
    stream: Stream, pieces: Iterator[bytes], total: int | None, progress: Progress | None
) -> str:
    digest = new_digest()
    count = 0

    def step() -> bytes:
        piece = next(pieces, b"")
        digest.update(piece)
        return piece

    while piece := await in_thread(step):
        await stream.write(_LENGTH.pack(len(piece)))
        await stream.write(piece)
        count += len(piece)
        if progress is not None:
            # An archive is larger than what is in it.
            progress(count if total is None else min(count, total), total)
    await stream.write(_LENGTH.pack(0) + digest.digest())
    await stream.finish()
    return digest.hexdigest()


async def _answer(stream: Stream) -> tuple[str, int]:
    match (await _Reader(stream).rest()).split(b"\0"):
        case [b"done", path, files, _] if files.isdigit() and len(files) < _DIGITS:
            return _text(path), int(files)
        case [b"failed", words]:
            raise TransferError(_text(words))
        case [b""]:
            raise StreamResetError("the machine ended the stream too soon")
        case _:
            raise TransferError("the machine answered what is no answer")


def _text(words: bytes) -> str:
    """Words of the guest's, made safe to show."""
    return "".join(c if c.isprintable() else "�" for c in words.decode(errors="replace"))
