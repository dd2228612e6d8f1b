"""What every `session.Session` does of branches whose machine ends for a while."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.sessions import IMPLEMENTATIONS
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.reports import ResumeReport
from branchpoint_vmruntime.session import Session

Opening = Callable[[Path], AbstractAsyncContextManager[Session]]

pytestmark = pytest.mark.parametrize("opened", IMPLEMENTATIONS, ids=lambda it: it.__name__)


@in_a_loop
async def test_a_paused_branch_has_no_machine_and_stands_on_its_last_moment(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        report = await session.pause()
        main = session.current
        assert (main.state, main.memory()) == (BranchState.PAUSED, None)
        assert report.branch is main
        assert report.checkpoint.kind is CheckpointKind.PAUSED
        assert main.record.head == report.checkpoint.id
        assert report.freed_bytes > 0
        with pytest.raises(UsageError, match="no machine"):
            _ = main.kernel


@in_a_loop
async def test_a_resumed_branch_is_live_and_stands_where_it_was_paused(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        paused = await session.pause()
        report = await session.resume()
        assert report.checkpoint == paused.checkpoint
        assert report.away_s >= 0
        assert session.current.state is BranchState.LIVE
        assert session.current.record.head == paused.checkpoint.id


@in_a_loop
async def test_a_branch_that_is_not_current_is_paused_and_resumed_by_name(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        assert (await session.pause("other")).branch.name == "other"
        assert session.current.state is BranchState.LIVE
        assert (await session.resume("other")).branch.name == "other"
        assert session.current.name == "main"


@in_a_loop
async def test_what_is_paused_is_awake_when_it_is_wanted_and_its_driver_is_told_once(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        told: list[ResumeReport] = []
        session.on_resumed = told.append
        await session.pause()
        awake = await asyncio.gather(*(session.awake() for _ in range(3)))
        assert {branch.state for branch in awake} == {BranchState.LIVE}
        await session.awake()
        assert [report.branch for report in told] == [session.current]


@in_a_loop
async def test_who_is_asked_to_resume_tells_by_the_report_alone(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        told: list[ResumeReport] = []
        session.on_resumed = told.append
        await session.pause()
        await session.resume()
        assert told == []


@in_a_loop
async def test_only_what_is_paused_gets_its_machine_by_itself(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(2, names=["parked", "gone"])
        await session.drop(["gone"])
        await session.keep("main")
        with pytest.raises(UsageError, match="parked") as caught:
            await session.awake("parked")
        assert "%switch parked" in caught.value.hint
        assert session.branch("parked").state is BranchState.PARKED
        with pytest.raises(UsageError, match="dropped"):
            await session.awake("gone")


@in_a_loop
async def test_what_cannot_be_paused_or_resumed_is_refused_and_stays_as_it_is(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        await session.drop(["other"])
        with pytest.raises(UsageError, match="not paused"):
            await session.resume()
        session.executes = lambda name: name == "main"
        with pytest.raises(UsageError, match="a cell runs"):
            await session.pause()
        for asked in (session.pause("other"), session.resume("other")):
            with pytest.raises(UsageError):
                await asked
        for asked in (session.pause("nobody"), session.resume("nobody"), session.awake("nobody")):
            with pytest.raises(UnknownNameError):
                await asked
        assert session.current.state is BranchState.LIVE
        assert len(session.checkpoints()) == 2


@in_a_loop
async def test_what_is_paused_is_not_paused_again(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.pause()
        with pytest.raises(UsageError, match="paused already"):
            await session.pause()


@in_a_loop
async def test_switching_to_a_paused_branch_wakes_it(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        await session.pause("other")
        assert (await session.switch("other")).state is BranchState.LIVE


@in_a_loop
async def test_a_paused_branch_goes_back_and_is_live_then(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        goal = await session.checkpoint("goal")
        await session.pause()
        await session.rollback("goal")
        assert session.current.state is BranchState.LIVE
        assert session.current.record.head == goal.id


@in_a_loop
async def test_which_branch_is_current_is_on_record(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        assert session.record.current == "main"
        await session.fork(1, names=["other"])
        await session.switch("other")
        assert session.record.current == "other"


@in_a_loop
async def test_a_connection_to_a_forward_of_a_paused_branch_resumes_it_in_a_turn(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        turns: list[BranchState] = []

        @asynccontextmanager
        async def turn() -> AsyncGenerator[None]:
            turns.append(session.current.state)
            yield

        session.turn = turn
        await session.pause()
        made = await session.outside.forwards.add(8000)
        assert made.answered
        assert session.current.state is BranchState.PAUSED
        for _ in range(2):
            _, writer = await asyncio.open_connection("127.0.0.1", made.host_port)
            while session.current.memory() is None:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
            writer.transport.abort()
        assert turns == [BranchState.PAUSED]
