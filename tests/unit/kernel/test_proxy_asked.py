"""What pages ask of a notebook's kernel: whoever acts does not wait for whoever only looks."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.carrying import start
from tests.support.fake_branch import FakeBranch
from tests.support.fake_session import FakeSession
from tests.support.front_end import Notebook, in_a_loop, open_with

from branchpoint_kernel.asked import Looks
from branchpoint_kernel.operations import Done
from branchpoint_kernel.relay import Opened
from branchpoint_vmruntime.errors import SessionBusyError
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.lineage import Checkpoint

Fields = Mapping[str, Any]


class SlowSession(FakeSession):
    """Machines that are woken for a look tell nothing; it rolls back as at its control socket."""

    def __init__(self) -> None:
        super().__init__()
        self.looking = asyncio.Event()
        self.looks = 0
        self.answers["rollback"] = self._rolled_back

    @asynccontextmanager
    async def peek(self, checkpoint: Checkpoint) -> AsyncGenerator[FakeBranch]:
        """Wake one, for ever."""
        self.looks += 1
        self.looking.set()
        try:
            await asyncio.Event().wait()
            yield self.current
        finally:
            self.looks -= 1

    async def _rolled_back(self, fields: Fields) -> Fields:
        async with self.turn():
            assert self.looks == 0
            await self.rollback(fields["target"])
        return {}


class Ending:
    """A look that takes for ever, and then a while to end its machine."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def work(self) -> Done:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.ended.set()
        raise AssertionError


@asynccontextmanager
async def open_slow() -> AsyncGenerator[tuple[Notebook, SlowSession]]:
    """A notebook on such a session, with a checkpoint `one`."""
    session = SlowSession()

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        async with session:
            yield Opened(session, "in a machine that is made up")

    async with open_with(opening, session) as notebook:
        await notebook.run("%checkpoint one")
        yield notebook, session


@pytest.mark.parametrize(
    "look", [{"op": "preview", "target": "one"}, {"op": "diff", "before": "one"}]
)
@in_a_loop
async def test_a_look_gives_way_to_what_is_to_be_done(look: Fields) -> None:
    async with open_slow() as (_, session):
        asked = asyncio.create_task(ask(session, **look))
        await session.looking.wait()
        await session.answers["rollback"]({"target": "one"})
        with pytest.raises(SessionBusyError, match="something else was to be done first"):
            await asked


@pytest.mark.parametrize("cell", ["x = 1", "%checkpoint two"])
@in_a_loop
async def test_a_look_gives_way_to_a_cell(cell: str) -> None:
    async with open_slow() as (notebook, session):
        asked = asyncio.create_task(ask(session, op="preview", target="one"))
        await session.looking.wait()
        assert (await notebook.run(cell)).status == "ok"
        with pytest.raises(SessionBusyError, match="something else was to be done first"):
            await asked


@pytest.mark.parametrize("cell", ["x = 1", "%checkpoint two"])
@in_a_loop
async def test_a_look_that_began_while_a_cell_waited_gives_way_to_it(cell: str) -> None:
    async with open_slow() as (notebook, session):
        running = await start(notebook)
        behind = notebook.send(cell)
        await notebook.taken_in()
        asked = asyncio.create_task(ask(session, op="preview", target="one"))
        await session.looking.wait()
        running.end()
        assert (await notebook.answer(behind)).status == "ok"
        with pytest.raises(SessionBusyError, match="something else was to be done first"):
            await asked


@in_a_loop
async def test_a_look_gives_way_to_what_a_running_cell_does() -> None:
    async with open_slow() as (notebook, session):
        running = await start(notebook)
        asked = asyncio.create_task(ask(session, op="preview", target="one"))
        await session.looking.wait()
        calls = session.current.calls
        request = {"do": "magic", "name": "checkpoint", "line": "two"}
        assert (await calls.answered(calls.ask(request)))["status"] == "ok"
        with pytest.raises(SessionBusyError, match="something else was to be done first"):
            await asked
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


@in_a_loop
async def test_one_look_waits_for_another() -> None:
    async with open_slow() as (notebook, session):
        asked = [
            asyncio.create_task(ask(session, op="preview", target="one")),
            asyncio.create_task(ask(session, op="diff", before="one")),
        ]
        await session.looking.wait()
        assert not any(each.done() for each in asked)
        assert (await notebook.run("1")).status == "ok"
        for each in asked:
            with pytest.raises(SessionBusyError, match="something else was to be done first"):
                await each


@in_a_loop
async def test_whoever_stops_waiting_for_a_look_ends_it() -> None:
    async with open_slow() as (notebook, session):
        asked = asyncio.create_task(ask(session, op="preview", target="one"))
        await session.looking.wait()
        asked.cancel()
        await asyncio.wait({asked})
        assert (asked.cancelled(), session.looks) == (True, 0)
        assert (await notebook.run("%checkpoint two")).status == "ok"


@in_a_loop
async def test_a_look_that_gives_way_again_and_again_ends_undisturbed() -> None:
    looks, ending = Looks(), Ending()
    looking = asyncio.create_task(looks.look(ending.work))
    await ending.begun.wait()
    for _ in range(3):
        looks.give_way()
        await asyncio.sleep(0)
    with pytest.raises(SessionBusyError):
        await looking
    assert ending.ended.is_set()


@in_a_loop
async def test_a_look_that_gives_way_and_whose_asker_goes_away_ends_undisturbed() -> None:
    looks, ending = Looks(), Ending()
    looking = asyncio.create_task(looks.look(ending.work))
    await ending.begun.wait()
    looks.give_way()
    for _ in range(2):
        await asyncio.sleep(0)
        looking.cancel()
    await ending.ended.wait()
    assert looking.cancelled()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"asked": "page"}, "in the page of this notebook at"),
        ({"asked": "<b>elsewhere"}, "outside this notebook at"),
        ({}, "outside this notebook at"),
    ],
)
@in_a_loop
async def test_the_next_cell_is_told_where_a_rollback_was_asked_for(
    asked: Fields, told: str
) -> None:
    async with open_slow() as (notebook, session):
        await session.answers["rollback"]({"target": "one", **asked})
        assert f"main is back at one   asked for {told}" in (await notebook.run("1")).text


async def ask(session: FakeSession, op: str, **fields: str) -> Fields:
    """What is answered, as the control socket asks."""
    return await session.answers[op](fields)
