"""What passes over a stream opened for `exec`: frames both ways, and the order that begins. Pure.

A frame is its kind (1 byte), the length of its body (u32, big-endian) and the body. The host sends
RUN first: an order, by `pack_order`. Then, in any order: INPUT (bytes), INPUT_END, RESIZE (rows and
columns, by `pack_size`), SIGNAL (its number, 1 byte). Of input it sends no more than `WINDOW` bytes
that have not been TAKEN, so that a program which does not read holds up no signal.

The guest sends OUTPUT and ERRORS (bytes; of a terminal all is OUTPUT), TAKEN (a count, u32), and
STATUS at last: the exit status (i32; below 0 the signal that ended it) and, if the command could
not be started, why, in UTF-8.

At a session's control socket the same frames pass, once the owner has granted the request, but for
RUN, whose part the request has. Besides, the owner sends CUT, with why in UTF-8, and no more.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

RUN, INPUT, INPUT_END, RESIZE, SIGNAL = range(1, 6)
OUTPUT, ERRORS, TAKEN, STATUS, CUT = range(16, 21)
_KINDS = frozenset((RUN, INPUT, INPUT_END, RESIZE, SIGNAL, OUTPUT, ERRORS, TAKEN, STATUS, CUT))

WINDOW = 128 * 1024
PIECE_BYTES = 64 * 1024
# Linux takes no more than this of arguments and variables together, with its usual stack.
MOST_ORDER_BYTES = 2 << 20

_HEAD = struct.Struct(">BI")
_COUNT = struct.Struct(">I")
_SIZE = struct.Struct(">HH")
_STATUS = struct.Struct(">i")


class ExecFrameError(ValueError):
    """What arrived is no such frame, or is not what it should be; the words say what."""


class Size(NamedTuple):
    """A terminal's, in characters."""

    rows: int
    columns: int


class Order(NamedTuple):
    """What is to be run.

    `folder` is empty for the usual one; `environment` is added to the usual one; a `size` asks for
    a terminal.
    """

    argv: Sequence[bytes]
    folder: bytes
    environment: Mapping[bytes, bytes]
    size: Size | None


class ExecFrames:
    """Cuts a stream of bytes into frames, however it was chopped on the way."""

    def __init__(self, most_body_bytes: int = PIECE_BYTES) -> None:
        self.most_body_bytes = most_body_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take what arrived; the kinds and bodies of the frames it completed. ExecFrameError."""
        self._buffer += data
        frames: list[tuple[int, bytes]] = []
        while (frame := self._cut()) is not None:
            frames.append(frame)
        return frames

    def _cut(self) -> tuple[int, bytes] | None:
        if len(self._buffer) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._buffer)
        if kind not in _KINDS:
            raise ExecFrameError(f"a frame of the unknown kind {kind}")
        if length > self.most_body_bytes:
            raise ExecFrameError(
                f"a frame of {length} bytes is over the limit of {self.most_body_bytes}"
            )
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        return kind, body


def frame(kind: int, body: bytes = b"") -> bytes:
    """One frame."""
    return _HEAD.pack(kind, len(body)) + body


def pack_order(order: Order) -> bytes:
    """As the body of RUN: fields with zeros between them, which none of them can hold."""
    size = b"" if order.size is None else b"%d %d" % _checked(order.size)
    given = [b"%s=%s" % pair for pair in order.environment.items()]
    fields = [order.folder, size, b"%d" % len(given), *given, *order.argv]
    if any(b"\0" in field for field in fields):
        raise ExecFrameError("a command, its folder and its variables can hold no zero byte")
    return b"\0".join(fields)


def unpack_order(body: bytes) -> Order:
    """The order in a body of RUN. ExecFrameError if there is none."""
    try:
        folder, size, count, *rest = body.split(b"\0")
        given, argv = rest[: int(count)], rest[int(count) :]
        pairs = dict(variable.split(b"=", 1) for variable in given)
        there = Size(*map(int, size.split())) if size else None
    except (ValueError, TypeError) as error:
        raise ExecFrameError("an order to run a command that cannot be read") from error
    if not argv or len(given) != int(count) or b"" in pairs:
        raise ExecFrameError(
            "an order to run a command that names none, or a variable without name"
        )
    return Order(argv, folder, pairs, None if there is None else _checked(there))


def pack_size(size: Size) -> bytes:
    """As the body of RESIZE."""
    return _SIZE.pack(*_checked(size))


def unpack_size(body: bytes) -> Size:
    """The size in a body of RESIZE. ExecFrameError if there is none."""
    return Size(*_unpacked(_SIZE, body))


def pack_count(count: int) -> bytes:
    """As the body of TAKEN."""
    return _COUNT.pack(count)


def unpack_count(body: bytes) -> int:
    """The count in a body of TAKEN. ExecFrameError if there is none."""
    return _unpacked(_COUNT, body)[0]


def pack_status(status: int, words: str = "") -> bytes:
    """As the body of STATUS."""
    return _STATUS.pack(status) + words.encode(errors="replace")


def unpack_status(body: bytes) -> tuple[int, str]:
    """The status in a body of STATUS, and the words. ExecFrameError if there is none."""
    (status,) = _unpacked(_STATUS, body[: _STATUS.size])
    return status, body[_STATUS.size :].decode(errors="replace")


def _checked(size: Size) -> Size:
    if not all(0 <= length < 1 << 16 for length in size):
        raise ExecFrameError(f"no terminal has {size[0]} rows and {size[1]} columns")
    return size


def _unpacked(form: struct.Struct, body: bytes) -> tuple[int, ...]:
    if len(body) != form.size:
        raise ExecFrameError(f"a frame's body of {len(body)} bytes that cannot be read")
    return form.unpack(body)
