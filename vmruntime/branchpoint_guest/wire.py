"""The frames host and guest exchange over a port: the one guest module the host imports. Pure.

A frame is a 16-byte header and a body. Header, little-endian: magic `BP`, kind (1 byte), one zero
byte, generation (u32), body length (u32), CRC-32 of those twelve bytes (u32). The generation is the
number of the incarnation that sent it; a receiver drops frames of any other. The CRC covers the
header alone: the ports are lossless, but a reader that is out of step must find out at once instead
of waiting for 4 GB.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

_FACTS = struct.Struct("<2sBxII")
_CHECK = struct.Struct("<I")
_TIME = struct.Struct("<d")
HEADER_SIZE = _FACTS.size + _CHECK.size
MAGIC = b"BP"
MAX_BODY = 1 << 30


class WireError(ValueError):
    """What arrived is not a frame; the two ends are out of step."""


class Kind(IntEnum):
    """What a frame's body is."""

    CONTROL = 1
    """One JSON object."""
    MESSAGE = 2
    """Parts, by `pack_parts`."""
    WAKE = 3
    """Fields, by `pack_fields`: the order to wake, or the answer to it."""
    CLOCK = 4
    """Empty: the guest asks for the time. Else the host's, by `pack_time`."""


# Plain numbers for the guest's path of waking: there the first use of anything costs, and an
# enumeration's members and a frozen dataclass cost 20 ms of emulated Python between them.
CONTROL, MESSAGE, WAKE, CLOCK = (int(kind) for kind in Kind)
_KINDS = frozenset((CONTROL, MESSAGE, WAKE, CLOCK))


class Frame(NamedTuple):
    """One frame as received; `kind` is a value of `Kind`."""

    kind: int
    generation: int
    body: bytes


def header(kind: int, generation: int, length: int) -> bytes:
    """The header that goes before a body of `length` bytes."""
    if length > MAX_BODY:
        raise WireError(f"a frame of {length} bytes is over the limit of {MAX_BODY}")
    facts = _FACTS.pack(MAGIC, kind, generation, length)
    return facts + _CHECK.pack(zlib.crc32(facts))


def encode(kind: int, generation: int, body: bytes) -> bytes:
    r"""A whole frame.

    >>> encode(Kind.CONTROL, 3, b"{}")[:4]
    b'BP\x01\x00'
    """
    return header(kind, generation, len(body)) + body


def encode_control(generation: int, message: dict[str, Any]) -> bytes:
    """A control frame: one JSON object."""
    return encode(Kind.CONTROL, generation, json.dumps(message).encode())


def decode_control(frame: Frame) -> dict[str, Any]:
    """The JSON object of a control frame."""
    try:
        value = json.loads(frame.body)
    except ValueError as error:
        raise WireError(f"a control frame must hold JSON: {error}") from error
    if not isinstance(value, dict):
        raise WireError("a control frame must hold a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def pack_fields(fields: Sequence[str]) -> bytes:
    r"""Texts without line ends as one body.

    >>> unpack_fields(pack_fields(["7", "", "ridge"]))
    ['7', '', 'ridge']
    """
    return "\n".join(fields).encode()


def unpack_fields(body: bytes) -> list[str]:
    """The texts of a body made by `pack_fields`."""
    return body.decode().split("\n")


def pack_time(time_s: float) -> bytes:
    """A time in seconds since the epoch."""
    return _TIME.pack(time_s)


def unpack_time(body: bytes) -> float:
    """The time of a body made by `pack_time`."""
    try:
        (time_s,) = _TIME.unpack(body)
    except struct.error as error:
        raise WireError(f"not a time: {error}") from error
    return time_s


def pack_parts(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one body: their number, their lengths, then the bytes.

    >>> unpack_parts(pack_parts([b"shell", b"", b"xyz"]))
    [b'shell', b'', b'xyz']
    """
    lengths = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    return b"".join([lengths, *parts])


def unpack_parts(body: bytes) -> list[bytes]:
    """The byte strings of a body made by `pack_parts`."""
    try:
        (count,) = struct.unpack_from("<I", body)
        lengths: tuple[int, ...] = struct.unpack_from(f"<{count}I", body, 4)
    except struct.error as error:
        raise WireError(f"a multipart body is cut short: {error}") from error
    start = 4 + 4 * count
    if start + sum(lengths) != len(body):
        raise WireError("a multipart body does not have the length it states")
    parts: list[bytes] = []
    for length in lengths:
        parts.append(body[start : start + length])
        start += length
    return parts


class FrameReader:
    """Cuts a stream of bytes into frames, however it was chopped on the way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes received that are not a whole frame yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Take what arrived; hand back every frame it completed."""
        self._buffer += data
        frames: list[Frame] = []
        while (frame := self._cut()) is not None:
            frames.append(frame)
        return frames

    def _cut(self) -> Frame | None:
        if len(self._buffer) < HEADER_SIZE:
            return None
        facts = bytes(self._buffer[: _FACTS.size])
        magic, kind, generation, length = _FACTS.unpack(facts)
        (check,) = _CHECK.unpack_from(self._buffer, _FACTS.size)
        if magic != MAGIC or zlib.crc32(facts) != check:
            raise WireError(f"not a frame header: {bytes(self._buffer[:HEADER_SIZE])!r}")
        if kind not in _KINDS:
            raise WireError(f"a frame of unknown kind {kind}")
        if length > MAX_BODY:
            raise WireError(f"a frame of {length} bytes is over the limit of {MAX_BODY}")
        end = HEADER_SIZE + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[HEADER_SIZE:end])
        del self._buffer[:end]
        return Frame(kind, generation, body)
