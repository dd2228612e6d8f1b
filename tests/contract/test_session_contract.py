"""What every `session.Session` keeps to, the runtime's own and the double that stands in for it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.contract.sessions import IMPLEMENTATIONS
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import NameTakenError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.session import Session

Opening = Callable[[Path], AbstractAsyncContextManager[Session]]

pytestmark = pytest.mark.parametrize("opened", IMPLEMENTATIONS, ids=lambda it: it.__name__)


def snapshot(session: Session) -> object:
    """All of it that can be seen."""
    return (
        [branch.record for branch in session.branches()],
        session.current.name,
        session.checkpoints(),
    )


@in_a_loop
async def test_it_starts_on_the_base_with_a_live_branch_main(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        [base] = session.checkpoints()
        assert (base.kind, base.label, base.parent) == (CheckpointKind.BASE, "base", None)
        assert [branch.name for branch in session.branches()] == ["main"]
        assert session.current.state is BranchState.LIVE
        assert session.current.record.head == base.id
        assert session.current.record.index == 0


@in_a_loop
async def test_a_checkpoint_is_the_branch_s_newest_and_descends_from_the_one_before(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        first = await session.checkpoint("first", note="the data is there")
        second = await session.checkpoint("second")
        assert (first.label, first.note, first.kind) == (
            "first",
            "the data is there",
            CheckpointKind.USER,
        )
        assert (first.parent, second.parent) == (session.find("base").id, first.id)
        assert session.current.record.head == second.id
        assert first.branch == "main"
        assert [c.label for c in session.checkpoints()] == ["base", "first", "second"]


@in_a_loop
async def test_a_checkpoint_without_a_label_gets_one_that_is_not_taken(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        labels = [(await session.checkpoint()).label for _ in range(3)]
        assert len(set(labels)) == 3
        assert "" not in labels


@in_a_loop
async def test_a_checkpoint_is_found_by_label_by_id_and_by_the_start_of_its_id(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        point = await session.checkpoint("point")
        for name in ("point", point.id, point.id[:6]):
            assert session.find(name) == point


@in_a_loop
async def test_a_label_used_again_means_the_newest_that_bears_it(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("again")
        newest = await session.checkpoint("again")
        assert session.find("again") == newest


@in_a_loop
async def test_no_name_means_the_current_branch_s_last_checkpoint(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        with pytest.raises(UsageError, match="no checkpoint to go back to yet"):
            session.find(None)
        point = await session.checkpoint("point")
        assert session.find(None) == point


@in_a_loop
async def test_a_checkpoint_nobody_took_is_an_unknown_name_that_tells_those_there_are(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("loaded")
        with pytest.raises(UnknownNameError) as caught:
            session.find("loadde")
        assert "loaded" in caught.value.known


@pytest.mark.parametrize("label", ["-x", "two words", "a,b", "x" * 65])
@in_a_loop
async def test_a_label_that_cannot_be_typed_is_refused_and_nothing_saved(
    tmp_path: Path, opened: Opening, label: str
) -> None:
    async with opened(tmp_path) as session:
        as_it_was = snapshot(session)
        with pytest.raises(UsageError):
            await session.checkpoint(label)
        assert snapshot(session) == as_it_was


@in_a_loop
async def test_a_branch_nobody_made_is_an_unknown_name(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        with pytest.raises(UnknownNameError) as caught:
            session.branch("nobody")
        assert caught.value.known == ("main",)


@in_a_loop
async def test_forks_are_live_branches_of_the_one_they_were_made_from(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        point = await session.checkpoint("point")
        report = await session.fork(3, start="point", names=["a", "b", "c"])
        assert report.origin == point
        assert [branch.name for branch in report] == ["a", "b", "c"]
        assert [branch.record.index for branch in report] == [1, 2, 3]
        for branch in report:
            assert branch.state is BranchState.LIVE
            assert (branch.record.parent, branch.record.origin) == ("main", point.id)
            assert branch.record.head == point.id
        assert session.current.name == "main"
        assert len(session.branches()) == 4


@in_a_loop
async def test_forks_of_this_very_moment_stand_on_a_checkpoint_of_it(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        report = await session.fork(2)
        assert report.origin.kind is CheckpointKind.FORK_POINT
        assert session.current.record.head == report.origin.id
        assert report.origin in session.checkpoints()


@in_a_loop
async def test_forks_without_names_get_names_that_are_not_taken(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        for _ in range(2):
            await session.fork(2)
        names = [branch.name for branch in session.branches()]
        assert len(set(names)) == 5


REFUSED_FORKS: dict[str, tuple[int, list[str], type[UsageError]]] = {
    "none": (0, [], UsageError),
    "less than none": (-1, [], UsageError),
    "more than can be": (999, [], UsageError),
    "too few names": (3, ["a"], UsageError),
    "too many names": (1, ["a", "b"], UsageError),
    "a name twice": (2, ["a", "a"], UsageError),
    "a name that is taken": (2, ["a", "main"], NameTakenError),
    "a name that stands for all": (1, ["all"], UsageError),
}


@pytest.mark.parametrize(
    ("count", "names", "error"), REFUSED_FORKS.values(), ids=REFUSED_FORKS.keys()
)
@in_a_loop
async def test_forks_that_cannot_be_are_refused_before_anything_is_done(
    tmp_path: Path, opened: Opening, count: int, names: list[str], error: type[UsageError]
) -> None:
    async with opened(tmp_path) as session:
        as_it_was = snapshot(session)
        with pytest.raises(error):
            await session.fork(count, names=names)
        assert snapshot(session) == as_it_was


@in_a_loop
async def test_a_rollback_puts_the_branch_on_its_target_and_keeps_what_it_left(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        goal = await session.checkpoint("goal")
        left = await session.checkpoint("left")
        report = await session.rollback("goal")
        assert report.checkpoint == goal
        assert (report.branch.name, session.current.name) == ("main", "main")
        assert session.current.record.head == goal.id
        assert session.current.state is BranchState.LIVE
        assert report.safety is not None
        assert (report.safety.kind, report.safety.parent) == (CheckpointKind.SAFETY, left.id)
        assert session.find(report.safety.label) == report.safety


@in_a_loop
async def test_a_rollback_can_be_rolled_back(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("goal")
        report = await session.rollback("goal")
        assert report.safety is not None
        await session.rollback(report.safety)
        assert session.current.record.head == report.safety.id


@in_a_loop
async def test_a_rollback_without_safety_leaves_no_checkpoint(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.checkpoint("goal")
        before = session.checkpoints()
        report = await session.rollback(safety=False)
        assert report.safety is None
        assert report.safety_note
        assert session.checkpoints() == before


@in_a_loop
async def test_a_fork_can_go_back_to_its_parent_s_checkpoint(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        early = await session.checkpoint("early")
        await session.checkpoint("late")
        await session.fork(1, names=["child"])
        await session.switch("child")
        await session.rollback("early")
        assert session.current.name == "child"
        assert session.current.record.head == early.id


@pytest.mark.parametrize("target", ["nowhere", None])
@in_a_loop
async def test_a_rollback_to_nowhere_changes_nothing(
    tmp_path: Path, opened: Opening, target: str | None
) -> None:
    async with opened(tmp_path) as session:
        as_it_was = snapshot(session)
        with pytest.raises(UsageError):
            await session.rollback(target)
        assert snapshot(session) == as_it_was


@in_a_loop
async def test_switching_continues_as_another_branch(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["other"])
        assert (await session.switch("other")).name == "other"
        assert session.current.name == "other"
        assert session.branch("main").state is BranchState.LIVE


@in_a_loop
async def test_switching_to_nobody_changes_nothing(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        as_it_was = snapshot(session)
        with pytest.raises(UnknownNameError):
            await session.switch("nobody")
        assert snapshot(session) == as_it_was


@in_a_loop
async def test_keeping_a_branch_parks_every_other_at_a_checkpoint_of_its_own(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(2, names=["a", "b"])
        report = await session.keep("a")
        assert report.branch.name == session.current.name == "a"
        assert {branch.name for branch in report.parked} == {"main", "b"}
        by_id = {checkpoint.id: checkpoint for checkpoint in session.checkpoints()}
        for branch in report.parked:
            assert branch.state is BranchState.PARKED
            assert by_id[branch.record.head].kind is CheckpointKind.PARKED


@in_a_loop
async def test_a_parked_branch_is_woken_from_where_it_was_parked(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["a"])
        await session.keep("a")
        parked_at = session.branch("main").record.head
        await session.switch("main")
        assert session.current.state is BranchState.LIVE
        assert session.current.record.head == parked_at


@in_a_loop
async def test_a_parked_branch_has_no_kernel_to_speak_to(tmp_path: Path, opened: Opening) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["a"])
        await session.keep("a")
        with pytest.raises(UsageError, match="no machine"):
            _ = session.branch("main").kernel
        assert session.branch("main").memory() is None


@in_a_loop
async def test_a_dropped_branch_is_over_and_its_checkpoints_stay(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(2, names=["a", "b"])
        await session.switch("a")
        point = await session.checkpoint("of-a")
        await session.switch("main")
        assert [branch.name for branch in await session.drop(["a"])] == ["a"]
        assert session.branch("a").state is BranchState.DROPPED
        assert session.find("of-a") == point
        with pytest.raises(UsageError, match="dropped"):
            await session.switch("a")


@in_a_loop
async def test_the_name_of_a_dropped_branch_may_be_used_again(
    tmp_path: Path, opened: Opening
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["a"])
        await session.drop(["a"])
        [again] = await session.fork(1, names=["a"])
        assert session.branch("a").state is again.state is BranchState.LIVE


@pytest.mark.parametrize("names", [["main"], ["a", "main"], ["a", "nobody"]])
@in_a_loop
async def test_the_current_branch_and_nobody_cannot_be_dropped_nor_any_along_with_them(
    tmp_path: Path, opened: Opening, names: list[str]
) -> None:
    async with opened(tmp_path) as session:
        await session.fork(1, names=["a"])
        as_it_was = snapshot(session)
        with pytest.raises(UsageError):
            await session.drop(names)
        assert snapshot(session) == as_it_was
