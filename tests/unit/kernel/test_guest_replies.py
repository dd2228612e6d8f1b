"""A reply stays behind large output that came before it, and is never held for ever."""

from pathlib import Path

from branchpoint_guestkernel.backlog import Backlog
from branchpoint_guestkernel.replies import HELD_S, SLACK_BYTES, Replies

LARGE = SLACK_BYTES + 1


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def backlog(folder: Path) -> Backlog:
    return Backlog(folder / "kernel.json")


def test_a_reply_with_nothing_before_it_is_due_at_once(tmp_path: Path) -> None:
    replies = Replies(backlog(tmp_path))
    replies.put([b"shell", b"1"])
    assert list(replies.due()) == [[b"shell", b"1"]]
    assert replies.next_deadline_s() is None


def test_a_reply_waits_for_the_output_before_it_and_not_for_what_comes_after(
    tmp_path: Path,
) -> None:
    counts = backlog(tmp_path)
    replies = Replies(counts)
    counts.add_published(LARGE)
    replies.put([b"shell", b"1"])
    counts.add_published(LARGE)
    assert list(replies.due()) == []
    counts.add_carried(LARGE)
    assert list(replies.due()) == [[b"shell", b"1"]]


def test_a_later_reply_does_not_overtake_one_that_is_held(tmp_path: Path) -> None:
    counts = backlog(tmp_path)
    replies = Replies(counts)
    counts.add_published(LARGE)
    replies.put([b"shell", b"1"])
    replies.put([b"shell", b"2"])
    counts.add_carried(LARGE)
    assert list(replies.due()) == [[b"shell", b"1"], [b"shell", b"2"]]


def test_a_reply_whose_output_never_comes_is_let_through(tmp_path: Path) -> None:
    counts, clock = backlog(tmp_path), Clock()
    replies = Replies(counts, clock)
    counts.add_published(LARGE)
    replies.put([b"shell", b"1"])
    assert replies.next_deadline_s() == clock.now_s + HELD_S
    clock.now_s += HELD_S
    assert list(replies.due()) == [[b"shell", b"1"]]


def test_kernel_and_relay_find_the_same_counters_whoever_comes_first(tmp_path: Path) -> None:
    kernel, relay = backlog(tmp_path), backlog(tmp_path)
    kernel.add_published(7)
    assert relay.waiting_bytes == 7
    relay.add_carried(9)
    assert kernel.waiting_bytes == 0
