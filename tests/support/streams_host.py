"""The host's end of a guest's streams, waited for without a loop: to try streamd alone."""

import select
import socket
import time
from collections import defaultdict
from collections.abc import Callable

from branchpoint_guest import mux
from branchpoint_guest.mux import Event, Mux
from branchpoint_guest.wire import FrameReader

PATIENCE_S = 120.0


class StreamsHost:
    """Speaks over a socket; what has been heard is kept. It takes all that comes unless told."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.mux = Mux.of_host()
        self.generation = 0
        self.sent = 0
        self.received = 0
        self.takes = True
        self.events: list[Event] = []
        self.data: dict[int, bytes] = defaultdict(bytes)
        self._reader = FrameReader()

    def renew(self, generation: int) -> None:
        """Begin anew, as when the machine wakes."""
        self.generation, self.mux = generation, Mux.of_host()
        self.sent = self.received = 0
        self.events.clear()
        self.data.clear()

    def open(self, *purpose: str) -> int:
        """Open a stream and wait until it is taken; its number."""
        number = self.mux.open(purpose)
        self.until(lambda: self.has(mux.OPENED, number))
        return number

    def refusal(self, *purpose: str) -> str:
        """The words in which the guest refuses to open one."""
        number = self.mux.open(purpose)
        return self.words(mux.REFUSED, number)

    def accepted(self) -> int:
        """The number of the stream that the guest opened last, taken."""
        self.until(lambda: self.has(mux.OPEN))
        number = [event.stream for event in self.events if event.verb == mux.OPEN][-1]
        self.mux.accept(number)
        return number

    def write(self, number: int, data: bytes, *, finish: bool = False) -> None:
        """Send, as far as there is room."""
        self.mux.write(number, data)
        if finish:
            self.mux.finish(number)
        self.flush()

    def has(self, verb: int, number: int | None = None) -> bool:
        """Whether that was heard, of that stream."""
        return any(e.verb == verb and number in (None, e.stream) for e in self.events)

    def words(self, verb: int, number: int) -> str:
        """The words that came with it, once they have."""
        self.until(lambda: self.has(verb, number))
        return next(" ".join(e.texts) for e in self.events if (e.verb, e.stream) == (verb, number))

    def until(self, condition: Callable[[], bool]) -> None:
        """Send and take in until it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.flush()
            if condition():
                return
            assert time.monotonic() < deadline, f"not so within {PATIENCE_S:g} s: {self.events}"
            self.take_in(0.05)

    def flush(self) -> None:
        """Send all there is to send."""
        while (frame := self.mux.next_frame(self.generation)) is not None:
            self.sent += 1
            self.sock.sendall(frame)

    def take_in(self, wait_s: float = 0.0) -> None:
        """Take in what has come, or comes in that time."""
        if not select.select([self.sock], [], [], wait_s)[0]:
            return
        for frame in self._reader.feed(self.sock.recv(1 << 20)):
            if frame.generation == self.generation:
                self.received += 1
                event = self.mux.take(frame.body)
                if event is not None:
                    self._note(event)

    def _note(self, event: Event) -> None:
        if event.verb != mux.DATA:
            self.events.append(event)
            return
        self.data[event.stream] += event.data
        if self.takes:
            self.mux.taken(event.stream, len(event.data))
