"""One end of a port to the host: whole frames in and out of a non-blocking descriptor, in order."""

import os
from collections import deque
from collections.abc import Sequence

from branchpoint_guest.wire import MESSAGE, Frame, FrameReader, header, pack_parts

# The virtio-console driver (Linux 6.1) takes 32 KiB a write.
WRITE_BYTES = 32 * 1024
READ_BYTES = 256 * 1024
# A file descriptor stays ready while it has more; the other sockets must get their turn.
WRITES_A_TURN = 64


class Port:
    """Message frames over a descriptor, counted both ways since the last waking."""

    def __init__(self, descriptor: int, generation: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.generation = generation
        self.received = 0
        self.sent = 0
        self.waiting_bytes = 0
        self.absent = False
        self._reader = FrameReader()
        self._queue: deque[tuple[memoryview, bool]] = deque()

    def renew(self, generation: int) -> None:
        """Start counting afresh, if the machine woke under another generation."""
        if generation == self.generation:
            return
        self.generation = generation
        self.received = 0
        self.sent = 0
        self._reader = FrameReader()

    def put(self, parts: Sequence[bytes]) -> None:
        """Queue one message for the host."""
        body = pack_parts(parts)
        head = header(MESSAGE, self.generation, len(body))
        self._queue.append((memoryview(head), False))
        self._queue.append((memoryview(body), True))
        self.waiting_bytes += len(head) + len(body)

    def write(self) -> None:
        """Hand the host as much of the queue as it takes now."""
        for _ in range(WRITES_A_TURN):
            if not self._queue:
                return
            data, is_last = self._queue[0]
            try:
                count = os.write(self.descriptor, data[:WRITE_BYTES])
            except BlockingIOError:
                return
            self.waiting_bytes -= count
            if count < len(data):
                self._queue[0] = (data[count:], is_last)
                continue
            self._queue.popleft()
            self.sent += is_last

    def read(self) -> list[Frame]:
        """The message frames of this generation that have arrived whole.

        `absent` becomes true while the host has no end open: the descriptor is then readable
        without end and gives nothing.
        """
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return []
        self.absent = not data
        fresh = [
            frame
            for frame in self._reader.feed(data)
            if frame.kind == MESSAGE and frame.generation == self.generation
        ]
        self.received += len(fresh)
        return fresh
