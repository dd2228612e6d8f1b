"""streamd's end of the port to the host: the bodies of streams' frames in, whole frames out."""

import os

from branchpoint_guest.mux import MOST_BODY_BYTES
from branchpoint_guest.wire import STREAM, FrameReader

# The driver (Linux 6.1) gives a page a read: several are gathered before they are looked at.
_READ_BYTES = 128 * 1024


class StreamPort:
    """Frames over a descriptor, counted both ways since the last waking."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.generation = 0
        self.received = 0
        self.sent = 0
        self.absent = False
        self._reader = FrameReader(MOST_BODY_BYTES)
        self._room = memoryview(bytearray(_READ_BYTES))
        self._rest = memoryview(b"")

    @property
    def is_half_written(self) -> bool:
        """Whether some of a frame still waits for the host to take it."""
        return bool(self._rest)

    def renew(self, generation: int) -> None:
        """Start counting afresh, under another generation."""
        self.generation = generation
        self.received = 0
        self.sent = 0

    def read(self) -> list[bytes]:
        """The bodies of the frames of this generation that have arrived whole.

        `absent` becomes true while the host has no end open: the descriptor is then readable
        without end and gives nothing.
        """
        filled = self._fill()
        bodies = [
            frame.body
            for frame in self._reader.feed(self._room[:filled])
            if frame.kind == STREAM and frame.generation == self.generation
        ]
        if self.absent:
            self._reader = FrameReader(MOST_BODY_BYTES)
            self._rest = memoryview(b"")
        self.received += len(bodies)
        return bodies

    def _fill(self) -> int:
        filled = 0
        while filled < _READ_BYTES:
            try:
                count = os.readv(self.descriptor, [self._room[filled:]])
            except BlockingIOError:
                break
            self.absent = not count
            if not count:
                break
            filled += count
        return filled

    def put(self, frame: bytes) -> None:
        """Begin a frame, once the one before is written."""
        self._rest = memoryview(frame)

    def write(self) -> bool:
        """Write what is left of the frame begun; whether all of it now is."""
        while self._rest:
            try:
                count = os.write(self.descriptor, self._rest)
            except BlockingIOError:
                return False
            self._rest = self._rest[count:]
            if not self._rest:
                self.sent += 1
        return True
