"""How large what a machine says may be: whoever is root in it may say anything. Pure."""

from collections.abc import Sequence

from branchpoint_guest import wire

# A call may have 256 MiB, and what a kernel says as one message may be as large.
MOST_MESSAGE_BYTES = 320 << 20
# Read, JSON takes up to thirty times its size. No word of guestd's that is long has many parts.
LONG_BYTES = 64 << 20
MOST_MARKS = 1 << 20
# More than any message of Jupyter's has; each takes more memory than its bytes.
MOST_PARTS = 10_000
_PART_BYTES = 64
_COUNT_BYTES = 4


def weight(parts: Sequence[bytes]) -> int:
    """About how many bytes of memory a message takes, also one of nothing."""
    return sum(map(len, parts)) + _PART_BYTES * (len(parts) + 1)


def require_few_marks(body: bytes) -> None:
    """WireError for a long JSON text that would take many times its size."""
    if len(body) > LONG_BYTES and sum(map(body.count, (b",", b"[", b"{"))) > MOST_MARKS:
        raise wire.WireError("a word of the machine's that is long and of many parts")


class Bounds:
    """Follows the messages of one incarnation's kernel, chunk by chunk."""

    def __init__(self) -> None:
        self._begun_bytes = [0 for _ in wire.LANES]

    def require(self, frame: wire.Frame) -> None:
        """WireError for a chunk of what is larger than any message."""
        lane = frame.lane & ~wire.MORE
        if frame.kind != wire.MESSAGE or lane not in wire.LANES:
            raise wire.WireError("what is no chunk of a message")
        before = self._begun_bytes[lane]
        if not before and int.from_bytes(frame.body[:_COUNT_BYTES], "little") > MOST_PARTS:
            raise wire.WireError(f"a message of more than {MOST_PARTS} parts")
        if frame.lane & wire.MORE and len(frame.body) < _COUNT_BYTES:
            raise wire.WireError("a chunk of next to nothing")
        if before + len(frame.body) > MOST_MESSAGE_BYTES:
            raise wire.WireError(f"a message of more than {MOST_MESSAGE_BYTES} bytes")
        self._begun_bytes[lane] = before + len(frame.body) if frame.lane & wire.MORE else 0
