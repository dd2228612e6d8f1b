"""One end of a port to the host: messages in and out of a non-blocking descriptor, in chunks."""

import os
from collections.abc import Sequence

from branchpoint_guest.wire import MESSAGE, FrameReader, Incoming, Outgoing

# The virtio-console driver (Linux 6.1) takes 32 KiB a write: a chunk is one.
CHUNK_BYTES = 32 * 1024
READ_BYTES = 256 * 1024
# A file descriptor stays ready while it has more; the other sockets must get their turn.
WRITES_A_TURN = 64


class Port:
    """Messages over a descriptor, counted both ways since the last waking."""

    def __init__(self, descriptor: int, generation: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.generation = generation
        self.received = 0
        self.sent = 0
        self.waiting_bytes = 0
        self.absent = False
        self._reader = FrameReader()
        self._incoming = Incoming()
        self._outgoing = Outgoing(CHUNK_BYTES)
        self._frame = memoryview(b"")
        self._frame_message_bytes = 0
        self._frame_is_last = False

    def renew(self, generation: int) -> None:
        """Start counting afresh, if the machine woke under another generation."""
        if generation == self.generation:
            return
        self.generation = generation
        self.received = 0
        self.sent = 0
        self._reader = FrameReader()
        self._incoming = Incoming()

    def put(self, parts: Sequence[bytes]) -> None:
        """Queue one message for the host."""
        self.waiting_bytes += self._outgoing.put(parts)

    def write(self) -> None:
        """Hand the host as much of what waits as it takes now, the most urgent first."""
        for _ in range(WRITES_A_TURN):
            if not self._frame and not self._take_frame():
                return
            try:
                count = os.write(self.descriptor, self._frame)
            except BlockingIOError:
                return
            self._frame = self._frame[count:]
            if not self._frame:
                self.waiting_bytes -= self._frame_message_bytes
                self.sent += self._frame_is_last

    def _take_frame(self) -> bool:
        following = self._outgoing.next_frame(self.generation)
        if following is None:
            return False
        frame, self._frame_message_bytes, self._frame_is_last = following
        self._frame = memoryview(frame)
        return True

    def read(self) -> list[list[bytes]]:
        """The messages of this generation that have arrived whole.

        `absent` becomes true while the host has no end open: the descriptor is then readable
        without end and gives nothing.
        """
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return []
        self.absent = not data
        messages: list[list[bytes]] = []
        for frame in self._reader.feed(data):
            if frame.kind != MESSAGE or frame.generation != self.generation:
                continue
            if (parts := self._incoming.take(frame)) is not None:
                messages.append(parts)
        self.received += len(messages)
        return messages
