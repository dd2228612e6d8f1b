"""How the contents of files pass over a stream.

In pieces: a length of 4 bytes, and so many bytes. A length of 0 ends them; the MD5 of all follows.
`BROKEN` as a length ends them too; words follow, why there is no more. What became of what the host
sent is answered by fields with zeros between them.
"""

import hashlib
import os
import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from branchpoint_guest.placing import FailedError, words_of

BROKEN = 0xFFFFFFFF
PIECE_BYTES = 256 << 10
# Against accidents: the guest could give any digest it likes. An emulated machine counts SHA-256 at
# 19 MB/s and MD5 at 285, and it has other work to do.
new_digest = partial(hashlib.md5, usedforsecurity=False)
_LENGTH = struct.Struct(">I")
_SIZE = struct.Struct(">Q")


class GuestStream(Protocol):
    """The guest's end of a stream. Calls wait; OSError once it is cut off."""

    def accept(self) -> None:
        """Take it."""
        ...

    def refuse(self, words: str) -> None:
        """Do not take it, in words for the host's user."""
        ...

    def read(self, limit: int, /) -> bytes:
        """Some bytes as they come; none once the host is done."""
        ...

    def write(self, data: bytes, /) -> None:
        """Send."""
        ...

    def finish(self) -> None:
        """Say that no more will be sent."""
        ...


class CutError(Exception):
    """The stream ended too soon: there is nobody to tell."""


class Pieces:
    """What the host sends, piece by piece; `count` bytes so far.

    CutError if it stops before the end, FailedError if it is not what was sent.
    """

    def __init__(self, stream: GuestStream) -> None:
        self._stream = stream
        self._digest = new_digest()
        self._over = False
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    def read(self, _limit: int = 0) -> bytes:
        """The next piece, however long; nothing at the end."""
        if self._over:
            return b""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length == BROKEN:
            raise CutError
        if length:
            piece = self._exactly(length)
            self._digest.update(piece)
            self.count += length
            return piece
        self._over = True
        if self._exactly(self._digest.digest_size) != self._digest.digest():
            raise FailedError("what arrived is not what was sent")
        return b""

    def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            try:
                part = self._stream.read(count)
            except OSError as error:
                raise CutError from error
            if not part:
                raise CutError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Conversation:
    """The guest's side of one transfer."""

    def __init__(self, stream: GuestStream) -> None:
        self._stream = stream
        self._accepted = False

    def accept(self) -> Pieces:
        """All is ready; what the host sends, if it sends anything."""
        with _cut_if_it_fails():
            self._stream.accept()
        self._accepted = True
        return Pieces(self._stream)

    def send(self, size: int, contents: Iterable[bytes]) -> None:
        """Send contents, or as much of them as there is, and why there is no more."""
        digest = new_digest()
        self._write(_SIZE.pack(size))
        try:
            for piece in contents:
                digest.update(piece)
                self._write(_LENGTH.pack(len(piece)))
                self._write(piece)
        except FailedError as error:
            self._write(_LENGTH.pack(BROKEN) + os.fsencode(str(error)))
        except OSError as error:
            self._write(_LENGTH.pack(BROKEN) + os.fsencode(words_of(error)))
        else:
            self._write(_LENGTH.pack(0) + digest.digest())

    def done(self, *fields: str) -> None:
        """Say that it is done."""
        self._write(b"\0".join(map(os.fsencode, ("done", *fields))))

    def fail(self, words: str) -> None:
        """Say that it is not done."""
        if self._accepted:
            self._write(os.fsencode(f"failed\0{words}"))
        else:
            with _cut_if_it_fails():
                self._stream.refuse(words)
            raise CutError

    def end(self) -> None:
        """Part. At once, the last words would be lost to a host that has not read them yet."""
        with _cut_if_it_fails():
            self._stream.finish()
            while self._stream.read(PIECE_BYTES):
                pass

    def _write(self, data: bytes) -> None:
        with _cut_if_it_fails():
            self._stream.write(data)


@contextmanager
def conversing(stream: GuestStream) -> Generator[Conversation]:
    """For one transfer: what fails in it is told to the host, in words."""
    conversation = Conversation(stream)
    with suppress(CutError):
        try:
            yield conversation
        except FailedError as error:
            conversation.fail(str(error))
        except OSError as error:
            conversation.fail(words_of(error))
        except ValueError as error:
            conversation.fail(f"that is no path: {error}")
        conversation.end()


@contextmanager
def _cut_if_it_fails() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CutError from error
