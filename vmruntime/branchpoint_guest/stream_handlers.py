"""What the host can open a stream to, besides a port: by the word that its purpose begins with.

A handler is run in a thread of its own, with its end of the stream and the rest of the purpose. It
says `accept` or `refuse` first. What it raises refuses or cuts off the stream, in its words.
"""

import socket
from collections.abc import Callable


class GuestStream:
    """The guest's end of a stream, which waits. ConnectionError once it is cut off."""

    def __init__(self, sock: socket.socket, answer: Callable[[str | None], None]) -> None:
        self._sock = sock
        self._answer = answer
        self._answered = False
        self.finished = False
        self.cut = False

    @property
    def answered(self) -> bool:
        """Whether it has been accepted or refused."""
        return self._answered

    def accept(self) -> None:
        """Take the stream."""
        self._say(None)

    def refuse(self, words: str) -> None:
        """Do not take it, in words for the host's user."""
        self._say(words)

    def read(self, limit: int = 65536) -> bytes:
        """Some bytes as they come; none once the host is done."""
        data = self._sock.recv(limit)
        if not data:
            self._check()
        return data

    def write(self, data: bytes) -> None:
        """Send; waits while the host has no room."""
        self._check()
        self._sock.sendall(data)

    def finish(self) -> None:
        """Say that no more will be sent; reading goes on."""
        self.finished = True
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Be done with it. If it was not finished, the host sees it cut off."""
        self._sock.close()

    def _say(self, refusal: str | None) -> None:
        if not self._answered:
            self._answered = True
            self._answer(refusal)

    def _check(self) -> None:
        if self.cut:
            raise ConnectionResetError("the stream was cut off")


Handler = Callable[[GuestStream, list[str]], None]


def _echo(stream: GuestStream, _: list[str]) -> None:
    """Give back what comes."""
    stream.accept()
    while data := stream.read():
        stream.write(data)
    stream.finish()


HANDLERS: dict[str, Handler] = {"echo": _echo}


def find_handler(word: str) -> Handler | None:
    """The handler of a purpose, None if there is none."""
    if word not in HANDLERS:
        # Only when first wanted: an import costs when emulated, and few machines want it.
        if word == "exec":
            from branchpoint_guest import executing  # noqa: PLC0415

            HANDLERS.update(executing.HANDLERS)
        else:
            from branchpoint_guest import transfer  # noqa: PLC0415

            HANDLERS.update(transfer.HANDLERS)
    return HANDLERS.get(word)
