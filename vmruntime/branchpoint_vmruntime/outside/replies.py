"""A server's reply on its way to a machine: secrets taken out of it, and what is kept of it."""

import zlib
from collections.abc import Callable, Iterator, Sequence

from branchpoint_vmruntime.errors import OutsideError
from branchpoint_vmruntime.ledger.replay import RecordedReply
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.masking import Mask

_PACKED = ("gzip", "x-gzip", "deflate")
_EITHER_HEADER = 47
_PIECE_BYTES = 256 << 10


class Screen:
    """Takes byte strings out of a reply's headers and body. Without any it changes nothing.

    A packed body is unpacked for that; OutsideError if it is packed in a way that is not known.
    """

    def __init__(self, masks: Sequence[bytes], encoding: str) -> None:
        self._masks = masks
        self._mask = Mask(masks)
        self._unpacking = None
        if masks and encoding in _PACKED:
            self._unpacking = zlib.decompressobj(_EITHER_HEADER)
        elif masks and encoding not in ("", "identity"):
            raise OutsideError(
                f"the reply is packed as {encoding!r}, where a secret cannot be looked for"
            )

    @property
    def unpacks(self) -> bool:
        """Whether the body becomes another one, of another length."""
        return self._unpacking is not None

    def headers(self, headers: Headers) -> Headers:
        """The headers as they are passed on."""
        if not self._masks:
            return headers
        return tuple(
            (name, self.line(value))
            for name, value in headers
            if not (self.unpacks and name.lower() == b"content-encoding")
        )

    def line(self, value: bytes) -> bytes:
        """One short text as it is passed on."""
        mask = Mask(self._masks)
        return mask.feed(value) + mask.flush()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What can be passed on of the body, now that `data` has come; OutsideError."""
        if not self._masks:
            yield data
            return
        for piece in self._unpacked(data):
            if shown := self._mask.feed(piece):
                yield shown

    def flush(self) -> bytes:
        """What was held back, at the end of the body."""
        return self._mask.flush() if self._masks else b""

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        if self._unpacking is None:
            yield data
            return
        try:
            is_full = False
            # What has been taken in whole may still fill more than one piece.
            while data or is_full:
                piece = self._unpacking.decompress(data, _PIECE_BYTES)
                data, is_full = self._unpacking.unconsumed_tail, len(piece) == _PIECE_BYTES
                yield piece
        except zlib.error as error:
            raise OutsideError(f"the reply cannot be unpacked: {error}") from error


class Keeping:
    """Keeps a reply as it is passed on, up to a size, and while `take` has room for it."""

    def __init__(self, most_bytes: int, take: Callable[[int], bool]) -> None:
        self._most_bytes = most_bytes
        self._take = take
        self._head: tuple[int, bytes, Headers] | None = None
        self._body = bytearray()
        self._is_whole = False
        self._is_too_large = False

    def begin(self, status: int, reason: bytes, headers: Headers) -> None:
        """Take its head."""
        self._head = (status, reason, headers)

    def feed(self, data: bytes) -> None:
        """Take a piece of its body."""
        if self._is_too_large:
            return
        if len(self._body) + len(data) > self._most_bytes or not self._take(len(data)):
            self._is_too_large = True
            self._body.clear()
        else:
            self._body += data

    def end(self) -> None:
        """Its body is whole."""
        self._is_whole = True

    def reply(self) -> RecordedReply | None:
        """The reply; None if it is not whole, or was too large."""
        if self._head is None or not self._is_whole or self._is_too_large:
            return None
        status, reason, headers = self._head
        return RecordedReply(status=status, reason=reason, headers=headers, body=bytes(self._body))
