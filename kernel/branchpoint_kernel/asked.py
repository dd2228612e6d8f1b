"""What pages may ask of a session beside what its owner answers: previews and differences."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from branchpoint_kernel.commands import Diff, Rollback
from branchpoint_kernel.operations import Done, Operations
from branchpoint_kernel.records import RECORD_TYPE
from branchpoint_kernel.visits import ASKED
from branchpoint_vmruntime.control_fields import optional_text, text
from branchpoint_vmruntime.errors import SessionBusyError
from branchpoint_vmruntime.session import Answer

Fields = Mapping[str, Any]

# What is done, and does not wait for somebody's look into a machine.
CHANGING = frozenset(
    {
        *("checkpoint", "fork", "rollback", "switch", "keep", "drop", "pause", "resume"),
        *("pin", "annotate", "lend", "remove", "end"),
    }
)
# By what `asked` says in a request: where that was, as the next cell is told it.
PLACES = {"page": "in the page of this notebook"}


def asked_of(
    looks: "Looks", operations: Operations, answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """By the name of what is asked: the lines a magic shows, as text and as HTML, and its record.

    Each takes its turn, as the magic does, which may last minutes. So that nobody has to wait for
    what was only a question, it is given up as soon as something of `answers` is to be done, when
    somebody else wants the turn, and when a cell could run but for it.
    """

    async def preview(fields: Fields) -> Fields:
        target = text(fields, "target")
        wanted = Rollback(target=target, safety=True, preview=True)
        return _told(await looks.look(lambda: operations.perform(wanted)))

    async def diff(fields: Fields) -> Fields:
        before, after = text(fields, "before"), optional_text(fields, "after")
        wanted = Diff(before=before, after=after, text=None)
        return _told(await looks.look(lambda: operations.perform(wanted)))

    changing = {op: _first(looks, answers[op]) for op in CHANGING & answers.keys()}
    return {**changing, "preview": preview, "diff": diff}


class Looks:
    """The looks into machines that are under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Done]] = set()

    async def look(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """Look; SessionBusyError if it has to give way meanwhile."""

        async def looking() -> Done:
            return await work()

        task = asyncio.create_task(looking(), name="look into machines")
        self._under_way.add(task)
        try:
            await asyncio.wait({task})
        finally:
            # Whoever asked may be gone; a machine that was woken for it is to be ended first.
            self._give_up(task)
            await asyncio.wait({task})
        if task.cancelled():
            raise SessionBusyError(
                "the look into the machine was given up: something else was to be done first",
                hint="look again once it is done",
            )
        return task.result()

    def give_way(self) -> None:
        """Give up all of them, unless it is one of them that asks: it waits for the others."""
        if asyncio.current_task() in self._under_way:
            return
        for task in list(self._under_way):
            self._give_up(task)

    def _give_up(self, task: asyncio.Task[Done]) -> None:
        # Once: a second time would reach into how it ends the machine that was woken for it.
        if task in self._under_way:
            self._under_way.remove(task)
            task.cancel()


def _first(looks: Looks, answer: Answer) -> Answer:
    async def act(fields: Fields) -> Fields:
        looks.give_way()
        with _asked(optional_text(fields, "asked")):
            return await answer(fields)

    return act


@contextmanager
def _asked(place: str | None) -> Generator[None]:
    if place not in PLACES:
        yield
        return
    # A connection asks for one thing after the other in the same context.
    token = ASKED.set(PLACES[place])
    try:
        yield
    finally:
        ASKED.reset(token)


def _told(done: Done) -> Fields:
    shown = done.shown
    return {
        "text": shown["text/plain"],
        "html": shown["text/html"],
        "record": shown[RECORD_TYPE],
    }
