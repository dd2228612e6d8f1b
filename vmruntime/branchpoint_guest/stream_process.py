"""streamd beside guestd: start it, bring it to rest and back, learn of its end."""

import socket
import subprocess
import sys

from branchpoint_guest.kernel_process import PROXY_PORT, LineSocket
from branchpoint_guest.ports import find_port

_BACKLOG = 512


class StreamProcess:
    """The process, outside the user's cgroup like the relay: it must drain what is frozen.

    The listener for the proxy's clients is guestd's, so that it is there before any of them and
    outlives a streamd.
    """

    def __init__(self, port: str, listener: socket.socket) -> None:
        self._port = port
        self._listener = listener
        self._drains = 0
        self._process, self.link = self._start()

    @classmethod
    def of_machine(cls) -> "StreamProcess":
        """The one that serves this machine's port and the proxy's address."""
        listener = socket.create_server(("127.0.0.1", PROXY_PORT), backlog=_BACKLOG)
        return cls(str(find_port("streams")), listener)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def _start(self) -> tuple[subprocess.Popen[bytes], LineSocket]:
        ours, theirs = socket.socketpair()
        inherited = [theirs.fileno(), self._listener.fileno()]
        if self._port.isdecimal():
            inherited.append(int(self._port))
        argv = [sys.executable, "-P", "-m", "branchpoint_guest.streamd", self._port]
        process = subprocess.Popen(
            [*argv, str(theirs.fileno()), str(self._listener.fileno())],
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        return process, LineSocket(ours)

    def drain(self, sent: int) -> None:
        """Have it come to rest once it has read so many frames."""
        self._drains += 1
        if not self.link.closed:
            self.link.send_line(f"drain {sent} {self._drains}")

    def drained(self, timeout_s: float) -> int | None:
        """Wait until it is at rest; how many frames it has sent.

        None if it has ended. TimeoutError if what is under way does not arrive.
        """
        answer = self.link.wait_line(f"drained-{self._drains}", timeout_s)
        if answer is not None:
            return int(answer)
        if self.link.closed:
            return None
        raise TimeoutError("streams on their way to or from the host could not be drained")

    def resume(self, generation: int) -> None:
        """Let it go on as it was."""
        if not self.link.closed:
            self.link.send_line(f"resume {generation}")

    def wake(self, generation: int) -> bool:
        """Let it go on in a new generation, with no stream left; whether it was made anew.

        One that has ended is: only now is no frame under way that the new one would see half of.
        """
        was_ended = self.link.closed
        if was_ended:
            self.link.sock.close()
            self._process, self.link = self._start()
        self.link.send_line(f"resume {generation}")
        return was_ended

    def note_end(self) -> bool:
        """Take in what it has said; whether it has ended."""
        self.link.receive_nowait()
        return self.link.closed

    def reap(self) -> None:
        """Wait for a process that has ended."""
        self._process.wait()
