"""The virtio-serial ports of this guest, found by name, and frames on them."""

import os
import select
import time
from contextlib import suppress
from pathlib import Path

from branchpoint_guest import wire

_PORTS = Path("/sys/class/virtio-ports")
_CHUNK = 32 * 1024
# How far apart question and answer may be without the host being asked again, and how often it is.
_CLOSE_S = 0.02
_QUESTIONS = 5


def find_port(name: str, *, wait_s: float = 5.0) -> Path:
    """The device of the port the host called `name`.

    There is no udev here to make links by name.
    """
    deadline = time.monotonic() + wait_s
    while True:
        for entry in _PORTS.glob("*/name"):
            # It may be gone by now.
            with suppress(OSError):
                if entry.read_text().strip() == name:
                    return Path("/dev") / entry.parent.name
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"no virtio port named {name!r}")
        time.sleep(0.01)


class ControlPort:
    """The control port: whole frames, in order. Reads never block, writes do.

    Writes block because control messages are small and a host that does not read them is gone.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.generation = 0
        self._reader = wire.FrameReader()
        self._waiting: list[wire.Frame] = []
        self._times_owed = 0
        self._owed_in = 0
        os.set_blocking(fd, False)

    def send(self, message: dict[str, object]) -> None:
        """Send one JSON object."""
        self._write(wire.encode_control(self.generation, message))

    def send_text(self, *pieces: bytes | bytearray) -> None:
        """Send one JSON object that is text already, however large, without putting it together."""
        self._write(wire.header(wire.CONTROL, self.generation, sum(map(len, pieces))))
        for piece in pieces:
            self._write(piece)

    def send_fields(self, fields: list[str]) -> None:
        """Send the answer to an order to wake."""
        self._write(wire.encode(wire.WAKE, self.generation, wire.pack_fields(fields)))

    def receive_nowait(self) -> list[wire.Frame]:
        """Every whole frame that has arrived, but for times nobody waits for any more."""
        frames = self._receive()
        for frame in frames:
            if frame.kind == wire.CLOCK:
                self._note_time(frame)
        return [frame for frame in frames if frame.kind != wire.CLOCK]

    def ask_time(self, timeout_s: float) -> tuple[float, float, float]:
        """The host's time, and the monotonic instants between which the host read it.

        A host busy with something else reads it late, so it is asked again until they are close.
        """
        closest = self._ask_time_once(timeout_s)
        for _ in range(1, _QUESTIONS):
            if (apart_s := _apart_s(closest)) <= _CLOSE_S:
                break
            try:
                closest = min(closest, self._ask_time_once(apart_s), key=_apart_s)
            except TimeoutError:
                # What comes later than that is no closer.
                continue
        return closest

    def _ask_time_once(self, timeout_s: float) -> tuple[float, float, float]:
        if self._owed_in != self.generation:
            # The host answers no question of an incarnation that is over.
            self._owed_in, self._times_owed = self.generation, 0
        asked = time.monotonic()
        self._write(wire.encode(wire.CLOCK, self.generation, b""))
        self._times_owed += 1
        deadline = asked + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            select.select([self.fd], [], [], left)
            frames = self._receive()
            answered = time.monotonic()
            times = [frame for frame in frames if frame.kind == wire.CLOCK]
            self._waiting = [frame for frame in frames if frame.kind != wire.CLOCK]
            for frame in times:
                if self._note_time(frame):
                    return wire.unpack_time(frame.body), asked, answered
        raise TimeoutError("the host did not say what time it is")

    def _note_time(self, frame: wire.Frame) -> bool:
        """Whether this answers the last question; one given up may be answered late."""
        if frame.generation == self._owed_in and self._times_owed:
            self._times_owed -= 1
            return not self._times_owed
        return False

    def _receive(self) -> list[wire.Frame]:
        frames, self._waiting = self._waiting, []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return frames
            if not data:
                # The host end is closed: level-triggered, so a pause keeps this from spinning.
                time.sleep(0.002)
                return frames
            frames += self._reader.feed(data)

    def _write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd, view[:_CHUNK]) :]
            except BlockingIOError:
                select.select([], [self.fd], [], 1.0)


def _apart_s(answer: tuple[float, float, float]) -> float:
    _, asked, answered = answer
    return answered - asked
