"""What every `session.Session` does for branches that are not current, and for its driver."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.sessions import IMPLEMENTATIONS
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import MachineEndedError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import BranchState, Cell, CheckpointKind, Moment
from branchpoint_vmruntime.session import Session

Opening = Callable[[Path], AbstractAsyncContextManager[Session]]

pytestmark = pytest.mark.parametrize("opened", IMPLEMENTATIONS, ids=lambda it: it.__name__)


@in_a_loop
async def test_a_branch_that_is_not_current_is_saved_by_name(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        [other] = await session.fork(1, names=["other"])
        saved = await session.checkpoint("of-other", branch="other")
        assert (saved.branch, saved.parent) == ("other", other.record.origin)
        assert session.branch("other").record.head == saved.id
        assert session.find(None, branch="other") == saved
        assert session.current.name == "main"
        assert session.current.record.head != saved.id


@in_a_loop
async def test_a_branch_that_is_not_current_is_forked_by_name(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        report = await session.fork(2, branch="other")
        assert report.origin.branch == "other"
        assert {fork.record.parent for fork in report} == {"other"}
        assert [fork.name for fork in report] == ["other-1", "other-2"]


@in_a_loop
async def test_a_branch_that_is_not_current_goes_back_by_name(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        goal = await session.checkpoint("goal", branch="other")
        left = await session.checkpoint("left", branch="other")
        before = session.current.record
        report = await session.rollback("goal", branch="other")
        assert (report.branch.name, report.checkpoint) == ("other", goal)
        assert report.safety is not None
        assert (report.safety.branch, report.safety.parent) == ("other", left.id)
        assert session.branch("other").record.head == goal.id
        assert session.current.record == before


@in_a_loop
async def test_no_target_means_the_last_checkpoint_of_the_branch_that_goes_back(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        own = await session.checkpoint("own", branch="other")
        await session.checkpoint("of-main")
        assert (await session.rollback(branch="other")).checkpoint == own


@in_a_loop
async def test_a_dropped_branch_does_not_go_back(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("goal")
        await session.fork(1, names=["other"])
        await session.drop(["other"])
        with pytest.raises(UsageError, match="dropped"):
            await session.rollback("goal", branch="other")


@in_a_loop
async def test_what_is_asked_of_nobody_is_an_unknown_name(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        for asked in (
            session.checkpoint(branch="nobody"),
            session.fork_point("nobody"),
            session.fork(1, branch="nobody"),
            session.rollback("base", branch="nobody"),
        ):
            with pytest.raises(UnknownNameError):
                await asked
        with pytest.raises(UnknownNameError):
            session.find(None, branch="nobody")


@in_a_loop
async def test_a_fork_point_is_forked_from_several_times_and_its_forks_counted_on(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        point = await session.fork_point()
        assert point.kind is CheckpointKind.FORK_POINT
        assert session.current.record.head == point.id
        first = await session.fork(2, start=point)
        second = await session.fork(2, start=point, first_index=3)
        assert [fork.record.index for fork in (*first, *second)] == [1, 2, 3, 4]
        assert {fork.record.origin for fork in (*first, *second)} == {point.id}
        assert session.checkpoints()[-1] == point


@in_a_loop
async def test_a_checkpoint_taken_by_itself_says_so_and_is_numbered(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        taken = [await session.checkpoint(kind=CheckpointKind.AUTO) for _ in range(2)]
        assert [point.label for point in taken] == ["auto-1", "auto-2"]
        assert {point.kind for point in taken} == {CheckpointKind.AUTO}


@in_a_loop
async def test_the_path_of_a_checkpoint_leads_to_the_base(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        for label in ("one", "two"):
            await session.checkpoint(label)
        await session.rollback("one")
        await session.checkpoint("three")
        labels = [point.label for point in session.path(session.find("three"))]
        assert labels == ["three", "one", "base"]


@in_a_loop
async def test_the_witness_is_heard_for_every_checkpoint_of_whatever_kind(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        asked: list[str] = []

        async def witness(branch: str) -> Moment:
            asked.append(branch)
            return Moment(count=len(asked), cell=Cell(id="c", count=len(asked), source=branch))

        session.witness = witness
        await session.checkpoint("user")
        await session.checkpoint(kind=CheckpointKind.AUTO)
        await session.fork(1, names=["other"])
        await session.rollback("user")
        await session.keep("other")
        await session.pause("other")
        taken = [point for point in session.checkpoints() if point.kind is not CheckpointKind.BASE]
        assert {point.kind for point in taken} == set(CheckpointKind) - {CheckpointKind.BASE}
        assert [point.moment.count for point in taken] == [1, 2, 3, 4, 5, 6]
        assert asked == [*["main"] * 5, "other"]
        assert session.find("base").moment == Moment()


@in_a_loop
async def test_a_witness_that_fails_costs_no_checkpoint(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:

        async def witness(_branch: str) -> Moment:
            raise RuntimeError("nobody saw anything")

        session.witness = witness
        moment = (await session.checkpoint("anyway")).moment
        assert replace(moment, incarnation="", position=0) == Moment()


@in_a_loop
async def test_a_peek_is_a_machine_that_is_no_branch_and_on_no_record(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        point = await session.checkpoint("point")
        seen = ([branch.record for branch in session.branches()], session.checkpoints())
        async with session.peek(point) as looked_into:
            assert (looked_into.name, looked_into.state) == ("peek", BranchState.LIVE)
            assert looked_into.record.head == point.id
            assert looked_into.calls is not session.current.calls
            assert ([branch.record for branch in session.branches()], session.checkpoints()) == seen
            with pytest.raises(UnknownNameError):
                session.branch("peek")
        assert looked_into.memory() is None


@in_a_loop
async def test_a_session_is_used_while_somebody_peeks(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        point = await session.checkpoint("point")
        async with session.peek(point), session.peek(session.find("base")):
            assert (await session.rollback("point")).checkpoint == point


@in_a_loop
async def test_every_machine_that_lives_takes_room(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        before = session.room()
        await session.fork(2, names=["a", "b"])
        with_forks = session.room()
        await session.drop(["a", "b"])
        assert (before - with_forks, session.room()) == (2, before)


@in_a_loop
async def test_calls_are_those_of_the_present_machine(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("goal")
        left = session.current.calls
        await session.rollback("goal")
        assert session.current.calls is not left
        with pytest.raises(MachineEndedError):
            await left.next()


@in_a_loop
async def test_a_branch_without_a_machine_hears_no_calls(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["a"])
        await session.drop(["a"])
        with pytest.raises(UsageError, match="no machine"):
            _ = session.branch("a").calls
