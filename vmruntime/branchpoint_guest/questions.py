"""Questions that the hook in the kernel answers in its own time, such as for its variables."""

import json
import select
import socket
import time
from collections.abc import Callable

_ANSWER_LIMIT = 32 << 20
_READ_BYTES = 256 * 1024


class _Question:
    """One question under way, on a connection of its own."""

    def __init__(self, address: str, line: str, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.answer = bytearray()
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.setblocking(False)  # noqa: FBT003
        try:
            self.connection.connect(address)
            self.connection.send(f"{line}\n".encode(), socket.MSG_NOSIGNAL)
        except OSError:
            self.connection.close()
            raise

    def read(self) -> bool:
        """Take what has come; whether that is all."""
        try:
            data = self.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self.answer += data
        return not data or len(self.answer) > _ANSWER_LIMIT


class Questions:
    """The questions under way. An answer is JSON, ended by the end of the connection."""

    def __init__(self) -> None:
        self._ready = select.epoll()
        self._asked: dict[int, tuple[_Question, Callable[[bytes | None], None]]] = {}

    def fileno(self) -> int:
        """Readable while there is something for `serve` to do."""
        return self._ready.fileno()

    def ask(
        self, address: str, line: str, take: Callable[[bytes | None], None], timeout_s: float
    ) -> None:
        """Put a question; `take` gets the answer, or None if it makes no sense.

        One that is overdue gets no answer: whoever asked has given it up by itself. OSError if
        nobody hears the question.
        """
        self._drop_overdue()
        question = _Question(address, line, time.monotonic() + timeout_s)
        self._asked[question.connection.fileno()] = question, take
        self._ready.register(question.connection, select.EPOLLIN)

    def serve(self) -> None:
        """Take what has come, and hand over what is complete."""
        for descriptor, _ in self._ready.poll(0):
            question, take = self._asked[descriptor]
            if question.read():
                self._end(question)
                take(bytes(question.answer) if _is_json(question.answer) else None)

    def close(self) -> None:
        """Give up every question."""
        for question, _ in list(self._asked.values()):
            self._end(question)
        self._ready.close()

    def _drop_overdue(self) -> None:
        now = time.monotonic()
        for question, _ in list(self._asked.values()):
            if question.deadline_s < now:
                self._end(question)

    def _end(self, question: _Question) -> None:
        self._ready.unregister(question.connection)
        del self._asked[question.connection.fileno()]
        question.connection.close()


def _is_json(text: bytearray) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return len(text) <= _ANSWER_LIMIT
