"""Many streams of bytes over one port: frames, credit and turns, alike for both ends. Pure.

The body of a frame is the number of a stream (u32, little-endian), a verb (1 byte) and what belongs
to it. The guest opens streams of odd numbers, the host of even ones, each counting up, and either
may send on what it has opened before the other has answered.

Each direction of a stream has a window: so much may be sent that nobody has taken yet, and what is
taken is given back as credit. Therefore both ends can always read the port, and a stream that
nobody takes from holds up no other.
"""

import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Self

from branchpoint_guest.wire import HEADER_SIZE, STREAM, WireError, header

OPEN, OPENED, REFUSED, DATA, CREDIT, END, RESET = range(1, 8)

_HEAD = struct.Struct("<IB")
_CREDIT = struct.Struct("<I")
# The virtio-console driver (Linux 6.1) takes 32 KiB a write: a frame is one.
DATA_BYTES = 32 * 1024 - HEADER_SIZE - _HEAD.size
MOST_BODY_BYTES = DATA_BYTES + _HEAD.size
# What the guest may send that the host has not taken; and the other way, where all of it may have
# to be held in the guest's own memory.
HOST_WINDOW = 256 * 1024
GUEST_WINDOW = 128 * 1024
# At once, of those that one end has opened.
MOST_STREAMS = 512
_MOST_PURPOSE_BYTES = 8 * 1024
_MOST_WORDS_BYTES = 1024
_MOST_UNREAD_ANSWERS = 8 * MOST_STREAMS


class Event(NamedTuple):
    """What the other end did: a verb, to which stream, and what belongs to it.

    `data` is that of DATA; `texts` is the purpose of OPEN, or the words of REFUSED and RESET.
    """

    verb: int
    stream: int
    data: bytes = b""
    texts: tuple[str, ...] = ()


class _Stream:
    """One stream, as this end sees it."""

    __slots__ = (
        "answered",
        "credit",
        "ended",
        "ending",
        "has_turn",
        "heard_end",
        "number",
        "owed",
        "waiting",
        "waiting_bytes",
        "window",
    )

    def __init__(self, number: int, *, credit: int, window: int) -> None:
        self.number = number
        self.credit = credit
        self.window = window
        self.owed = 0
        self.waiting: deque[memoryview] = deque()
        self.waiting_bytes = 0
        self.answered = False
        self.ending = False
        self.ended = False
        self.heard_end = False
        self.has_turn = False

    def can_send(self) -> bool:
        if self.waiting_bytes:
            return self.credit > 0
        return self.ending and not self.ended


class Mux:
    """One end of all streams: takes the bodies of frames in, and says which frame to send next.

    `window` is what this end grants to every stream, `credit` what the other end grants.
    """

    def __init__(self, first: int, *, window: int, credit: int, limit: int = MOST_STREAMS) -> None:
        self._window = window
        self._credit = credit
        self._limit = limit
        self._parity = first % 2
        # Of paths the guest must get every byte; what it says of its own must be text anywhere.
        self._purpose_errors = "surrogateescape" if self._parity else "replace"
        self._next = first
        self._last_heard = 0
        self._opened = [0, 0]
        self._streams: dict[int, _Stream] = {}
        self._answers: deque[bytes] = deque()
        self._owing: deque[int] = deque()
        self._turns: deque[int] = deque()

    @classmethod
    def of_host(cls) -> Self:
        """The host's end."""
        return cls(2, window=HOST_WINDOW, credit=GUEST_WINDOW)

    @classmethod
    def of_guest(cls) -> Self:
        """The guest's end."""
        return cls(1, window=GUEST_WINDOW, credit=HOST_WINDOW)

    @property
    def may_open(self) -> bool:
        """Whether this end may open one more."""
        return self._opened[self._parity] < self._limit

    @property
    def streams(self) -> int:
        """How many there are."""
        return len(self._streams)

    def open(self, purpose: Sequence[str]) -> int:
        """Open a stream; its number. Texts of a purpose bear no zeros."""
        number = self._next
        self._next += 2
        self._add(number)
        self._say(number, OPEN, "\0".join(purpose).encode(errors="surrogateescape"))
        return number

    def accept(self, number: int) -> None:
        """Take what the other end has opened."""
        stream = self._streams.get(number)
        if stream is not None and not stream.answered:
            stream.answered = True
            self._say(number, OPENED)

    def refuse(self, number: int, words: str) -> None:
        """Do not take what the other end has opened."""
        if self._drop(number):
            self._say(number, REFUSED, _short(words))

    def reset(self, number: int, words: str) -> None:
        """Cut a stream off, both ways."""
        if self._drop(number):
            self._say(number, RESET, _short(words))

    def close(self, number: int, words: str) -> None:
        """Be done with a stream: cut it off unless both ends have said that they are done."""
        stream = self._streams.get(number)
        if stream is not None and not (stream.ending and stream.heard_end):
            self.reset(number, words)

    def room(self, number: int) -> int:
        """How many bytes more the other end has room for, beyond those that wait here."""
        stream = self._streams.get(number)
        return 0 if stream is None else max(0, stream.credit - stream.waiting_bytes)

    def waiting_bytes(self, number: int) -> int:
        """How many bytes wait here to be sent."""
        stream = self._streams.get(number)
        return 0 if stream is None else stream.waiting_bytes

    def write(self, number: int, data: bytes | memoryview) -> None:
        """Queue bytes to send; they must not change until then."""
        stream = self._streams.get(number)
        if stream is not None and data and not stream.ending:
            stream.waiting.append(memoryview(data))
            stream.waiting_bytes += len(data)
            self._give_turn(stream)

    def finish(self, number: int) -> None:
        """Say, after what waits, that no more will be sent."""
        stream = self._streams.get(number)
        if stream is not None:
            stream.ending = True
            self._give_turn(stream)

    def taken(self, number: int, count: int) -> None:
        """Note that so many bytes received have found their taker: that is credit to give back."""
        stream = self._streams.get(number)
        if stream is None or stream.heard_end:
            return
        before, stream.owed = stream.owed, stream.owed + count
        if before < self._window // 2 <= stream.owed:
            self._owing.append(number)

    def take(self, body: bytes) -> Event | None:
        """Take a frame in; what that means for the user of its stream, if anything.

        WireError for what no other end would send; the streams are of no use then.
        """
        if len(body) < _HEAD.size:
            raise WireError("a frame of a stream is cut short")
        number, verb = _HEAD.unpack_from(body)
        payload = body[_HEAD.size :]
        if verb == OPEN:
            return self._take_open(number, payload)
        stream = self._streams.get(number)
        if stream is None:
            self._check_was_opened(number)
            return None
        if verb == DATA:
            return self._take_data(stream, payload)
        if verb == CREDIT:
            return self._take_credit(stream, payload)
        if verb == END:
            return self._take_end(stream)
        if verb == RESET:
            self._drop(number)
            return Event(RESET, number, texts=_texts(payload))
        if verb in (OPENED, REFUSED):
            return self._take_answer(stream, verb, payload)
        raise WireError(f"a stream's frame with the unknown verb {verb}")

    def next_frame(self, generation: int) -> bytes | None:
        """The frame to send now; None if there is nothing to send.

        Answers and credit go before data; of data each stream has a frame in its turn.
        """
        if self._answers:
            body = self._answers.popleft()
            return header(STREAM, generation, len(body)) + body
        while self._owing:
            stream = self._streams.get(self._owing.popleft())
            if stream is not None:
                owed, stream.owed = stream.owed, 0
                stream.window += owed
                return self._frame(generation, stream.number, CREDIT, [_CREDIT.pack(owed)])
        while self._turns:
            stream = self._streams.get(self._turns.popleft())
            if stream is not None:
                stream.has_turn = False
                if stream.can_send():
                    return self._cut(stream, generation)
        return None

    def _cut(self, stream: _Stream, generation: int) -> bytes:
        if not stream.waiting_bytes:
            stream.ended = True
            self._forget_if_over(stream)
            return self._frame(generation, stream.number, END, [])
        pieces: list[memoryview] = []
        left = room = min(DATA_BYTES, stream.credit)
        while left and stream.waiting:
            piece = stream.waiting.popleft()
            if len(piece) > left:
                stream.waiting.appendleft(piece[left:])
                piece = piece[:left]
            pieces.append(piece)
            left -= len(piece)
        stream.credit -= room - left
        stream.waiting_bytes -= room - left
        self._give_turn(stream)
        return self._frame(generation, stream.number, DATA, pieces)

    @staticmethod
    def _frame(
        generation: int, number: int, verb: int, pieces: Sequence[bytes | memoryview]
    ) -> bytes:
        head = _HEAD.pack(number, verb)
        length = len(head) + sum(map(len, pieces))
        return b"".join([header(STREAM, generation, length), head, *pieces])

    def _take_open(self, number: int, payload: bytes) -> Event | None:
        if number % 2 == self._parity or number <= self._last_heard:
            raise WireError(f"a stream opened under the number {number}")
        if len(payload) > _MOST_PURPOSE_BYTES:
            raise WireError("a stream opened for more words than there may be")
        if len(self._answers) >= _MOST_UNREAD_ANSWERS:
            raise WireError("streams are opened by one that takes no answers")
        self._last_heard = number
        if self._opened[1 - self._parity] >= self._limit:
            self._say(number, REFUSED, _short(f"{self._limit} streams are open already"))
            return None
        self._add(number)
        return Event(OPEN, number, texts=_texts(payload, self._purpose_errors))

    def _check_was_opened(self, number: int) -> None:
        """What comes for a stream that is over was under way when it ended."""
        last = self._next - 1 if number % 2 == self._parity else self._last_heard
        if not 0 < number <= last:
            raise WireError(f"a frame for stream {number}, which there never was")

    def _take_data(self, stream: _Stream, payload: bytes) -> Event:
        if not payload or stream.heard_end or len(payload) > stream.window:
            raise WireError("data on a stream that must have none")
        stream.window -= len(payload)
        return Event(DATA, stream.number, payload)

    def _take_credit(self, stream: _Stream, payload: bytes) -> Event:
        if len(payload) != _CREDIT.size:
            raise WireError("credit that is no number")
        (count,) = _CREDIT.unpack(payload)
        if not 0 < count <= self._credit - stream.credit:
            raise WireError("credit for what was never sent")
        stream.credit += count
        self._give_turn(stream)
        return Event(CREDIT, stream.number)

    def _take_end(self, stream: _Stream) -> Event:
        if stream.heard_end:
            raise WireError("a stream that ends twice")
        stream.heard_end = True
        self._forget_if_over(stream)
        return Event(END, stream.number)

    def _take_answer(self, stream: _Stream, verb: int, payload: bytes) -> Event:
        if stream.number % 2 != self._parity or stream.answered:
            raise WireError("an answer to what was not asked")
        stream.answered = True
        if verb == REFUSED:
            self._drop(stream.number)
        return Event(verb, stream.number, texts=_texts(payload))

    def _add(self, number: int) -> None:
        self._streams[number] = _Stream(number, credit=self._credit, window=self._window)
        self._opened[number % 2] += 1

    def _drop(self, number: int) -> bool:
        if self._streams.pop(number, None) is None:
            return False
        self._opened[number % 2] -= 1
        return True

    def _forget_if_over(self, stream: _Stream) -> None:
        if stream.ended and stream.heard_end:
            self._drop(stream.number)

    def _give_turn(self, stream: _Stream) -> None:
        if not stream.has_turn and stream.can_send():
            stream.has_turn = True
            self._turns.append(stream.number)

    def _say(self, number: int, verb: int, payload: bytes = b"") -> None:
        self._answers.append(_HEAD.pack(number, verb) + payload)


def _short(words: str) -> bytes:
    return words.encode(errors="replace")[:_MOST_WORDS_BYTES]


def _texts(payload: bytes, errors: str = "replace") -> tuple[str, ...]:
    return tuple(payload.decode(errors=errors).split("\0"))
