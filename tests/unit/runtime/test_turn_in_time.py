"""What is asked for until a certain moment, and has not begun by then, is never done."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.lent import KEY
from tests.unit.runtime.served import asked

from branchpoint_vmruntime.errors import SessionBusyError, UsageError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session_control import SessionControl

LONG_S = 600.0


@in_a_loop
async def test_a_branch_is_lent_in_time(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["ridge"])
        await control.lend("ridge", KEY, by=time.monotonic() + LONG_S)
        assert there.session.branch("ridge").state is BranchState.LENT


@in_a_loop
async def test_what_has_not_had_its_turn_by_then_is_refused_and_not_done_later(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["ridge"])
        held = asyncio.Lock()

        @asynccontextmanager
        async def turn() -> AsyncGenerator[None]:
            async with held:
                yield

        there.session.turn = turn
        async with held:
            with pytest.raises(SessionBusyError, match="something else is under way"):
                await control.lend("ridge", KEY, by=time.monotonic() + 0.1)
        # Nothing is left in the queue.
        await control.checkpoint("after")
        assert there.session.branch("ridge").state is BranchState.LIVE


@in_a_loop
async def test_what_comes_too_late_is_refused_also_where_nothing_is_under_way(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["ridge"])
        with pytest.raises(SessionBusyError):
            await control.lend("ridge", KEY, by=time.monotonic())
        assert there.session.branch("ridge").state is BranchState.LIVE


@in_a_loop
async def test_a_time_of_another_kind_is_refused(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, control):
        with pytest.raises(UsageError, match="by has to be a number of seconds, not 'soon'"):
            await control.ask("pause", by="soon")


@in_a_loop
async def test_whose_turn_is_waited_for_is_found_out_when_it_comes(tmp_path: Path) -> None:
    turns: list[str] = []
    first, go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def before() -> AsyncGenerator[None]:
        first.set()
        await go.wait()
        yield

    @asynccontextmanager
    async def after() -> AsyncGenerator[None]:
        turns.append("after")
        yield

    async with asked(tmp_path) as (there, control), asyncio.TaskGroup() as group:
        there.session.turn = before
        group.create_task(control.checkpoint("one"))
        await first.wait()
        async with SessionControl(there.socket) as other:
            asking = group.create_task(other.checkpoint("two"))
            # Whoever looks is answered after what came in before.
            await control_answers(there.socket)
            there.session.turn = after
            go.set()
            await asking
    assert turns == ["after"]


async def control_answers(socket: Path) -> None:
    async with SessionControl(socket) as looking:
        for _ in range(5):
            await looking.branches()
