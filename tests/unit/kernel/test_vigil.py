"""How long an interrupted cell has for what it does then, by what is heard of it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_kernel import vigil as vigil_module
from branchpoint_kernel.messages import Message
from branchpoint_kernel.vigil import ROUNDS, Vigil


class Interrupted:
    """A kernel whose cell heeds no interrupt: its pump, and the cell's conversation."""

    holds_ours = False
    ended = None

    def __init__(self) -> None:
        self.running = self
        self.channel = SimpleNamespace(incarnation="one")
        self.heard_of_cell = 0
        self.stuck = False
        self.said = ""

    def last_checkpoint(self, _pump: object) -> str:
        return "saved"

    def note_stuck(self) -> None:
        self.stuck = True

    def asker(self) -> object:
        return SimpleNamespace(header=b"{}", conversation=self)

    def take(self, message: Message) -> None:
        self.said += message.read()["text"]


class Waiting:
    """Stands in for the time that is waited: a test says what happens in each round."""

    def __init__(self) -> None:
        self.rounds = 0
        self.happens: Callable[[], object] = lambda: None

    async def sleep(self, _seconds: float) -> None:
        self.rounds += 1
        happened = self.happens()
        if happened is not None:
            await cast("Any", happened)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    there = Waiting()
    monkeypatch.setattr(vigil_module, "asyncio", there)
    return there


def a_vigil(kernel: Any) -> Vigil:
    return Vigil(kernel, kernel, kernel)


@in_a_loop
async def test_a_cell_that_nothing_is_heard_of_is_told_after_one_round(waiting: Waiting) -> None:
    kernel = Interrupted()
    await a_vigil(kernel).after_interrupt(cast("Any", kernel))
    assert waiting.rounds == 1
    assert kernel.stuck
    assert "nothing was heard of it" in kernel.said
    assert "%rollback saved" in kernel.said


@in_a_loop
async def test_a_cell_that_says_something_has_more_time_but_not_for_ever(waiting: Waiting) -> None:
    kernel = Interrupted()

    def speak() -> None:
        kernel.heard_of_cell += 1

    waiting.happens = speak
    await a_vigil(kernel).after_interrupt(cast("Any", kernel))
    assert waiting.rounds == ROUNDS
    assert kernel.stuck
    assert "has not ended the cell: it goes on" in kernel.said


@in_a_loop
async def test_after_a_second_interrupt_what_a_cell_says_gives_it_no_more_time(
    waiting: Waiting,
) -> None:
    kernel = Interrupted()
    vigil = a_vigil(kernel)

    async def interrupt() -> None:
        kernel.heard_of_cell += 1
        if waiting.rounds == 1:
            await vigil.after_interrupt(cast("Any", kernel))

    waiting.happens = interrupt
    await vigil.after_interrupt(cast("Any", kernel))
    assert waiting.rounds == 2
    assert kernel.said.count("has not ended the cell") == 1


@in_a_loop
async def test_a_cell_that_ends_is_told_nothing_and_the_next_has_its_own_time(
    waiting: Waiting,
) -> None:
    kernel = Interrupted()
    vigil = a_vigil(kernel)
    first = kernel.running

    def end() -> None:
        kernel.running = cast("Any", None)

    waiting.happens = end
    await vigil.after_interrupt(cast("Any", kernel))
    assert (kernel.said, kernel.stuck) == ("", False)
    kernel.running, waiting.happens = first, lambda: None
    await vigil.after_interrupt(cast("Any", kernel))
    assert kernel.stuck
