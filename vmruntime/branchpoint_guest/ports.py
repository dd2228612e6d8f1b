"""The virtio-serial ports of this guest, found by name, and frames on them."""

import os
import select
import time
from pathlib import Path

from branchpoint_guest import wire

_PORTS = Path("/sys/class/virtio-ports")
_CHUNK = 32 * 1024


def find_port(name: str, *, wait_s: float = 5.0) -> Path:
    """The device of the port the host called `name`.

    There is no udev here to make links by name.
    """
    deadline = time.monotonic() + wait_s
    while True:
        for entry in _PORTS.glob("*/name"):
            if entry.read_text().strip() == name:
                return Path("/dev") / entry.parent.name
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"no virtio port named {name!r}")
        time.sleep(0.01)


class ControlPort:
    """The control port: whole JSON messages, in order. Reads never block, writes do.

    Writes block because control messages are small and a host that does not read them is gone.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.generation = 0
        self._reader = wire.FrameReader()
        self._waiting: list[dict[str, object]] = []
        os.set_blocking(fd, False)

    def send(self, message: dict[str, object]) -> None:
        """Send one message, whole."""
        view = memoryview(wire.encode_control(self.generation, message))
        while view:
            try:
                view = view[os.write(self.fd, view[:_CHUNK]) :]
            except BlockingIOError:
                select.select([], [self.fd], [], 1.0)

    def receive_nowait(self) -> list[dict[str, object]]:
        """Every whole message that has arrived."""
        messages, self._waiting = self._waiting, []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return messages
            if not data:
                # The host end is closed: level-triggered, so a pause keeps this from spinning.
                time.sleep(0.02)
                return messages
            messages += [wire.decode_control(frame) for frame in self._reader.feed(data)]

    def wait_for(self, op: str, timeout_s: float) -> dict[str, object]:
        """The next message of that kind; others that come first are kept for `receive_nowait`."""
        deadline = time.monotonic() + timeout_s
        kept: list[dict[str, object]] = []
        try:
            while True:
                messages = self.receive_nowait()
                for place, message in enumerate(messages):
                    if message.get("op") == op:
                        kept += messages[place + 1 :]
                        return message
                    kept.append(message)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"the host did not send {op!r}")
                select.select([self.fd], [], [], left)
        finally:
            self._waiting = kept + self._waiting
