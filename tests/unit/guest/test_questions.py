"""Questions to the hook in the kernel: answered in its own time, or never."""

import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from branchpoint_guest.questions import Questions


class Asking:
    """Questions, the kernel's end of their connections, and the answers that came."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "hook.questions")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.address)
        self.listener.listen()
        self.questions = Questions()
        self.answers: list[bytes | None] = []
        self.connections: list[socket.socket] = []

    def ask(self, line: str = "variables 80", *, timeout_s: float = 60) -> socket.socket:
        """Ask; the kernel's end."""
        self.questions.ask(self.address, line, self.answers.append, timeout_s)
        self.connections.append(self.listener.accept()[0])
        return self.connections[-1]


@pytest.fixture
def asking(tmp_path: Path) -> Generator[Asking]:
    asking = Asking(tmp_path)
    yield asking
    for each in (asking.questions, asking.listener, *asking.connections):
        each.close()


def test_a_question_is_one_line(asking: Asking) -> None:
    assert asking.ask("variables 80").recv(100) == b"variables 80\n"


def test_an_answer_is_handed_over_once_it_is_complete(asking: Asking) -> None:
    kernel = asking.ask()
    kernel.sendall(b'[{"name"')
    asking.questions.serve()
    assert asking.answers == []
    kernel.sendall(b': "x"}]')
    asking.questions.serve()
    kernel.close()
    asking.questions.serve()
    assert asking.answers == [b'[{"name": "x"}]']


def test_a_question_that_hangs_holds_up_no_other(asking: Asking) -> None:
    asking.ask()
    other = asking.ask()
    other.sendall(b"[]")
    other.close()
    while not asking.answers:
        asking.questions.serve()
    assert asking.answers == [b"[]"]


@pytest.mark.parametrize("answer", [b"", b"[1,", b"\xff"])
def test_an_answer_that_makes_no_sense_is_none(asking: Asking, answer: bytes) -> None:
    kernel = asking.ask()
    kernel.sendall(answer)
    kernel.close()
    while not asking.answers:
        asking.questions.serve()
    assert asking.answers == [None]


def test_one_that_is_overdue_is_hung_up_on_at_the_next(asking: Asking) -> None:
    overdue = asking.ask(timeout_s=-1)
    asking.ask()
    assert overdue.recv(100) == b"variables 80\n"
    assert overdue.recv(100) == b""
    assert asking.answers == []


def test_where_nobody_hears_it_is_an_error(tmp_path: Path) -> None:
    questions = Questions()
    with pytest.raises(OSError, match="No such file"):
        questions.ask(str(tmp_path / "nobody"), "variables 80", print, 60)
    questions.close()
