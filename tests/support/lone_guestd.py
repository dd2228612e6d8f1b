"""`python -m tests.support.lone_guestd PORT_FD NOTES [STREAMS_FD]`: guestd outside a guest.

Without a port for streams there is nobody beside it to carry them. What only the first process of a
guest can do is noted in a file, a JSON list a line, and not done.
"""

import json
import socket
import sys
import tempfile
from pathlib import Path

from branchpoint_guest import guestd
from branchpoint_guest.freezer import FreezeTimeoutError, UserCgroup
from branchpoint_guest.kernel_process import LineSocket
from branchpoint_guest.ports import ControlPort
from branchpoint_guest.stream_process import StreamProcess
from branchpoint_guest.waking import Waking


class Notes:
    """What would have been done to the system."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, *call: object) -> None:
        """One call."""
        with self._path.open("a") as file:
            file.write(json.dumps(call) + "\n")


class NotedCgroup(UserCgroup):
    """Freezes nobody; cannot freeze where there is a file `stubborn` beside the notes."""

    def __init__(self, notes: Notes, folder: Path) -> None:
        self._notes = notes
        self._folder = folder

    def adopt_self(self) -> None:
        """Stay where we are."""

    def freeze(self, timeout_s: float) -> None:
        """Note it."""
        self._notes.add("freeze")
        if (self._folder / "stubborn").exists():
            raise FreezeTimeoutError(f"a process could not be frozen within {timeout_s:g} s")

    def thaw(self) -> None:
        """Note it."""
        self._notes.add("thaw")


class NotedWaking(Waking):
    """Changes nothing."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def add_entropy(self, entropy: bytes) -> None:
        """Note it."""
        self._notes.add("entropy", entropy.hex())

    def set_clock(self, host_time_s: float, asked_at_s: float, answered_at_s: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Note it."""
        self._notes.add("clock", host_time_s, answered_at_s - asked_at_s)

    def take_identity(self, identity: str, host_name: str) -> None:
        """Note it."""
        self._notes.add("identity", identity, host_name)


class NoStreams(StreamProcess):
    """Has ended before it began."""

    def __init__(self) -> None:
        self.link = LineSocket(socket.socketpair()[0])

    @property
    def pid(self) -> int:
        """Nobody's."""
        return -1

    def note_end(self) -> bool:
        """It is known."""
        return False

    def drain(self, sent: int) -> None:
        """There is nobody to bring to rest."""

    def drained(self, timeout_s: float) -> int | None:
        """There is nobody to wait for."""
        return None

    def resume(self, generation: int) -> None:
        """There is nobody to go on."""

    def wake(self, generation: int) -> bool:
        """There is nobody to wake."""
        return False


def main(port: int, path: Path, streams_port: str = "") -> None:
    """Serve until the host is gone."""
    notes = Notes(path)
    # A folder that no ordinary user may write to in the guest's place.
    guestd._unnamed_file = tempfile.TemporaryFile  # pyright: ignore[reportPrivateUsage]
    guestd.RUN = path.parent
    calls = str(path.with_name("calls.sock"))
    cgroup, waking = NotedCgroup(notes, path.parent), NotedWaking(notes)
    if streams_port:
        streams = StreamProcess(streams_port, socket.create_server(("127.0.0.1", 0)))
    else:
        streams = NoStreams()
    guestd.Guestd(ControlPort(port), cgroup, waking, calls, streams).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
