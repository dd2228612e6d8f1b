"""The host's end of a command in a guest, waited for without a loop: to try the guest's alone."""

import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from branchpoint_guest import exec_frames as frames
from branchpoint_guest.exec_frames import ExecFrames, Order, Size
from branchpoint_guest.executing import execute
from branchpoint_guest.stream_handlers import GuestStream

PATIENCE_S = 120.0


class ExecHost:
    """Speaks over a socket; what has been heard is kept. All that is written is taken at once."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.output = b""
        self.errors = b""
        self.taken = 0
        self.status: int | None = None
        self.words = ""
        self.is_over = False
        self._reader = ExecFrames()

    def order(
        self,
        *argv: str | bytes,
        folder: str,
        size: tuple[int, int] | None = None,
        **environment: str,
    ) -> None:
        """Have a command run."""
        order = Order(
            argv=[it.encode() if isinstance(it, str) else it for it in argv],
            folder=folder.encode(),
            environment={name.encode(): value.encode() for name, value in environment.items()},
            size=None if size is None else Size(*size),
        )
        self.send(frames.RUN, frames.pack_order(order))

    def send(self, kind: int, body: bytes = b"") -> None:
        """Send a frame."""
        self.sock.sendall(frames.frame(kind, body))

    def give(self, data: bytes) -> None:
        """Send all as input, as there is room, and that it ends."""
        sent = 0
        while sent < len(data) and self.status is None:
            self.until(lambda at=sent: at - self.taken < frames.WINDOW or self.status is not None)
            piece = data[sent : min(sent + frames.PIECE_BYTES, self.taken + frames.WINDOW)]
            self.send(frames.INPUT, piece)
            sent += len(piece)
        self.send(frames.INPUT_END)

    def wait(self) -> int:
        """Wait until it has ended; the status."""
        self.until(lambda: self.status is not None)
        assert self.status is not None
        return self.status

    def until(self, condition: Callable[[], bool]) -> None:
        """Take in what comes until it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.output[-2000:], self.errors[-2000:])
            assert not self.is_over, "it was cut off"
            self._take_in(0.05)

    def until_over(self) -> None:
        """Take in what comes until the guest has closed its end."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_over:
            assert time.monotonic() < deadline, "it was not closed"
            self._take_in(0.05)

    def _take_in(self, wait_s: float) -> None:
        if not select.select([self.sock], [], [], wait_s)[0]:
            return
        data = b""
        with suppress(ConnectionError):
            data = self.sock.recv(1 << 20)
        self.is_over = not data
        for kind, body in self._reader.feed(data):
            match kind:
                case frames.OUTPUT:
                    self.output += body
                case frames.ERRORS:
                    self.errors += body
                case frames.TAKEN:
                    self.taken += frames.unpack_count(body)
                case frames.STATUS:
                    self.status, self.words = frames.unpack_status(body)
                case _:
                    raise AssertionError(f"a guest sends no frame of kind {kind}")


class Serving:
    """The guest's end, in a thread; what it raised is kept."""

    def __init__(self, sock: socket.socket) -> None:
        self.error: Exception | None = None
        self.refusals: list[str | None] = []
        self._stream = GuestStream(sock, self.refusals.append)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            execute(self._stream, [], enter=lambda: None)
        except Exception as error:
            self.error = error
        finally:
            self._stream.close()

    def join(self) -> None:
        """Wait until it is done with its stream."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@contextmanager
def serving() -> Generator[tuple[ExecHost, Serving]]:
    """Both ends of one stream; on leaving, the host's is gone and all that carried has ended."""
    before = threading.enumerate()
    ours, theirs = socket.socketpair()
    guest = Serving(theirs)
    try:
        yield ExecHost(ours), guest
    finally:
        ours.close()
        guest.join()
        for carrying in set(threading.enumerate()) - set(before):
            carrying.join(PATIENCE_S)
            assert not carrying.is_alive(), "a command's thread goes on"
