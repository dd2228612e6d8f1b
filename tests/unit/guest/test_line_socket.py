"""Lines between guestd and its helpers: whole, in order, however they are chopped, and no hang."""

import socket
import threading
from collections.abc import Generator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from branchpoint_guest.kernel_process import Hook, LineSocket

WORDS = st.text(
    st.characters(blacklist_characters="\n\r \x0b\x0c\x85", blacklist_categories=("Cs",))
)
TEXTS = st.text(st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)))


class Pair(NamedTuple):
    """guestd's end, and the other."""

    lines: Hook
    peer: socket.socket


@pytest.fixture
def pair() -> Generator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pair(Hook(ours), theirs)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, TEXTS), max_size=6), st.integers(1, 40))
def test_lines_come_out_whole_and_in_order_however_they_arrive(
    pair: Pair, said: list[tuple[str, str]], step: int
) -> None:
    stream = "".join(f"{word} {rest}\n" for word, rest in said).encode()
    heard: list[tuple[str, str]] = []
    for start in range(0, len(stream), step):
        pair.peer.sendall(stream[start : start + step])
        heard += pair.lines.receive_nowait()
    assert heard == said


def test_a_word_alone_has_nothing_after_it(pair: Pair) -> None:
    pair.peer.sendall(b"ready\n")
    assert pair.lines.receive_nowait() == [("ready", "")]


def test_half_a_line_is_kept_until_it_is_whole(pair: Pair) -> None:
    pair.peer.sendall(b"ran {half")
    assert pair.lines.receive_nowait() == []
    pair.peer.sendall(b" whole}\n")
    assert pair.lines.receive_nowait() == [("ran", "{half whole}")]


def test_nothing_said_is_nothing_heard_and_no_wait(pair: Pair) -> None:
    assert pair.lines.receive_nowait() == []
    assert not pair.lines.closed


def test_what_was_said_before_the_other_end_closed_is_heard(pair: Pair) -> None:
    pair.peer.sendall(b"last words\n")
    pair.peer.close()
    assert pair.lines.receive_nowait() == [("last", "words")]
    assert pair.lines.closed


def test_bytes_that_are_no_text_are_heard_and_harm_nothing(pair: Pair) -> None:
    pair.peer.sendall(b"failed \xff\xfe\n")
    assert pair.lines.receive_nowait() == [("failed", "\ufffd\ufffd")]


def answering(peer: socket.socket, *lines: str) -> threading.Thread:
    """Answer the next line with those."""

    def answer() -> None:
        peer.recv(1 << 16)
        for line in lines:
            peer.sendall(f"{line}\n".encode())

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_question_gets_the_line_that_starts_with_its_answer(pair: Pair) -> None:
    thread = answering(pair.peer, "ran {}", "drained 7")
    assert pair.lines.ask_line("drain 3", "drained", 10) == "7"
    thread.join()


def test_a_question_without_an_answer_is_given_up(pair: Pair) -> None:
    assert pair.lines.ask_line("drain 3", "drained", 0.05) is None
    assert pair.peer.recv(100) == b"drain 3\n"


def test_a_question_to_one_who_ends_is_given_up_at_once(pair: Pair) -> None:
    pair.peer.close()
    assert pair.lines.ask_line("drain 3", "drained", 60) is None


def test_a_question_to_one_who_ends_while_asked_is_given_up_at_once(pair: Pair) -> None:
    timer = threading.Timer(0.05, pair.peer.close)
    timer.start()
    assert pair.lines.ask_line("drain 3", "drained", 60) is None
    timer.join()


def test_a_kernel_that_is_greeted_gives_its_nonce_and_what_it_made_new(pair: Pair) -> None:
    thread = answering(pair.peer, "awake c0ffee\trandom,numpy")
    assert pair.lines.greet(["inc-1", "ridge", "3", "s-1", "fork", ""], 10) == (
        "c0ffee",
        "random,numpy",
    )
    thread.join()


def test_the_greeting_is_one_line_of_fields(pair: Pair) -> None:
    pair.lines.greet(["inc-1", "ridge", "3", "s-1", "fork", "ab"], 0.05)
    assert pair.peer.recv(1000) == b"awake inc-1\tridge\t3\ts-1\tfork\tab\n"


@pytest.mark.parametrize("answer", ["failed ValueError: x", "what"])
def test_a_kernel_that_does_not_understand_has_a_nonce_no_kernel_has(
    pair: Pair, answer: str
) -> None:
    # What is no answer is passed over: it is the time that ends the wait.
    pair.peer.sendall(f"{answer}\n".encode())
    assert pair.lines.greet(["inc-1"], 0.1) == ("?", "")


def test_a_line_larger_than_the_socket_holds_is_sent_whole() -> None:
    ours, theirs = socket.socketpair()
    text = "x" * 3_000_000
    with ours, theirs:
        reading = LineSocket(theirs)
        heard: list[tuple[str, str]] = []

        def read() -> None:
            while not heard:
                heard.extend(reading.receive_nowait())

        thread = threading.Thread(target=read)
        thread.start()
        LineSocket(ours).send_line(f"run {text}")
        thread.join()
    assert heard == [("run", text)]
