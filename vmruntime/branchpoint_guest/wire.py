"""The frames host and guest exchange over a port: the one guest module the host imports. Pure.

A frame is a 16-byte header and a body. Header, little-endian: magic `BP`, kind (1 byte), lane (1
byte), generation (u32), body length (u32), CRC-32 of those twelve bytes (u32). The generation is
the number of the incarnation that sent it; a receiver drops frames of any other. The CRC covers the
header alone: the ports are lossless, but a reader that is out of step must find out at once instead
of waiting for 4 GB.

A message of the kernel's is cut into chunks, a frame each, so that one on a more urgent lane can go
between two of them: `Outgoing` cuts, `Incoming` puts together. The lane's highest bit says that
more of the message follows. Within a lane messages stay whole and in order.
"""

import json
import struct
import zlib
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

_FACTS = struct.Struct("<2sBBII")
_CHECK = struct.Struct("<I")
_TIME = struct.Struct("<d")
HEADER_SIZE = _FACTS.size + _CHECK.size
MAGIC = b"BP"
MAX_BODY = 1 << 30
MORE = 0x80
# The most urgent first. A reply on the shell channel stays behind the output that came before it:
# some clients drop what output comes long after the reply.
URGENT, ANSWER, ORDINARY = range(3)
LANES = (URGENT, ANSWER, ORDINARY)
_LANE_OF_CHANNEL = {b"control": URGENT, b"stdin": ANSWER}


class WireError(ValueError):
    """What arrived is not a frame; the two ends are out of step."""


class Kind(IntEnum):
    """What a frame's body is."""

    CONTROL = 1
    """One JSON object."""
    MESSAGE = 2
    """A chunk of a message's parts, by `pack_parts`."""
    WAKE = 3
    """Fields, by `pack_fields`: the order to wake, or the answer to it."""
    CLOCK = 4
    """Empty: the guest asks for the time. Else the host's, by `pack_time`."""
    STREAM = 5
    """One step of one stream, as `mux` says."""


# Plain numbers for the guest's path of waking: there the first use of anything costs, and an
# enumeration's members and a frozen dataclass cost 20 ms of emulated Python between them.
CONTROL, MESSAGE, WAKE, CLOCK, STREAM = (int(kind) for kind in Kind)
_KINDS = frozenset((CONTROL, MESSAGE, WAKE, CLOCK, STREAM))


class Frame(NamedTuple):
    """One frame as received; `kind` is a value of `Kind`, `lane` may bear the mark `MORE`."""

    kind: int
    generation: int
    body: bytes
    lane: int = 0


def header(kind: int, generation: int, length: int, lane: int = 0) -> bytes:
    """The header that goes before a body of `length` bytes."""
    if length > MAX_BODY:
        raise WireError(f"a frame of {length} bytes is over the limit of {MAX_BODY}")
    facts = _FACTS.pack(MAGIC, kind, lane, generation, length)
    return facts + _CHECK.pack(zlib.crc32(facts))


def encode(kind: int, generation: int, body: bytes, lane: int = 0) -> bytes:
    r"""A whole frame.

    >>> encode(Kind.CONTROL, 3, b"{}")[:4]
    b'BP\x01\x00'
    """
    return header(kind, generation, len(body), lane) + body


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
    return b"".join([_lengths(parts), *parts])


def _lengths(parts: Sequence[bytes]) -> bytes:
    return struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))


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

    def __init__(self, most_body_bytes: int = MAX_BODY) -> None:
        self._buffer = bytearray()
        self._most_body_bytes = most_body_bytes

    @property
    def pending(self) -> int:
        """Bytes received that are not a whole frame yet."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[Frame]:
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
        magic, kind, lane, generation, length = _FACTS.unpack(facts)
        (check,) = _CHECK.unpack_from(self._buffer, _FACTS.size)
        if magic != MAGIC or zlib.crc32(facts) != check:
            raise WireError(f"not a frame header: {bytes(self._buffer[:HEADER_SIZE])!r}")
        if kind not in _KINDS:
            raise WireError(f"a frame of unknown kind {kind}")
        if length > self._most_body_bytes:
            limit = self._most_body_bytes
            raise WireError(f"a frame of {length} bytes is over the limit of {limit}")
        end = HEADER_SIZE + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            body = bytes(view[HEADER_SIZE:end])
        del self._buffer[:end]
        return Frame(kind, generation, body, lane)


def lane_of(channel: bytes) -> int:
    """The lane for a message on that Jupyter channel."""
    return _LANE_OF_CHANNEL.get(channel, ORDINARY)


class Outgoing:
    """Messages on their way out, cut into frames of `chunk_bytes` at most, copied only then.

    The first part of a message is its channel's name.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._room = chunk_bytes - HEADER_SIZE
        self._lanes: tuple[deque[deque[memoryview]], ...] = tuple(deque() for _ in LANES)
        self.waiting_bytes = [0 for _ in LANES]

    def put(self, parts: Sequence[bytes]) -> int:
        """Queue a message; its size in bytes."""
        lane = lane_of(parts[0])
        pieces = deque(memoryview(part) for part in (_lengths(parts), *parts) if part)
        size = sum(map(len, pieces))
        self._lanes[lane].append(pieces)
        self.waiting_bytes[lane] += size
        return size

    def next_frame(self, generation: int) -> tuple[bytes, int, bool] | None:
        """The frame to send now, the bytes of messages in it, and whether it ends a message.

        None if nothing waits.
        """
        for lane in LANES:
            if self._lanes[lane]:
                return self._cut(lane, generation)
        return None

    def clear(self) -> None:
        """Forget all that waits."""
        for lane in LANES:
            self._lanes[lane].clear()
            self.waiting_bytes[lane] = 0

    def _cut(self, lane: int, generation: int) -> tuple[bytes, int, bool]:
        pieces = self._lanes[lane][0]
        chunk: list[memoryview] = []
        left = self._room
        while pieces and left:
            piece = pieces.popleft()
            if len(piece) > left:
                pieces.appendleft(piece[left:])
                piece = piece[:left]
            chunk.append(piece)
            left -= len(piece)
        size = self._room - left
        self.waiting_bytes[lane] -= size
        is_last = not pieces
        if is_last:
            self._lanes[lane].popleft()
        head = header(MESSAGE, generation, size, lane if is_last else lane | MORE)
        return b"".join([head, *chunk]), size, is_last


class Incoming:
    """Puts messages together from their chunks, lane by lane."""

    def __init__(self) -> None:
        self._chunks: tuple[list[bytes], ...] = tuple([] for _ in LANES)

    def take(self, frame: Frame) -> list[bytes] | None:
        """The parts of the message that this frame completes; None if more of it is to come."""
        lane = frame.lane & ~MORE
        if lane not in LANES:
            raise WireError(f"a chunk on unknown lane {lane}")
        chunks = self._chunks[lane]
        if frame.lane & MORE or chunks:
            chunks.append(frame.body)
        if frame.lane & MORE:
            return None
        if not chunks:
            return unpack_parts(frame.body)
        whole = b"".join(chunks)
        chunks.clear()
        return unpack_parts(whole)
