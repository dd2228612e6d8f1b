"""The session's rules when things go wrong: nothing is lost that was there, nothing left behind."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fake_workshop import (
    BASE,
    FULL,
    FakeMachine,
    FakeWorkshop,
    office,
    snapshot,
)
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.budget import Budgets
from branchpoint_vmruntime.errors import (
    CheckpointError,
    FreezeError,
    KernelDiedError,
    MachineEndedError,
    MachineError,
    StorageError,
    UnknownNameError,
    UsageError,
    WakeError,
)
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind


@in_a_loop
async def test_a_session_starts_with_one_live_branch_fresh_from_the_base(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        assert [branch.name for branch in it.session.branches()] == ["main"]
        assert it.session.current.state is BranchState.LIVE
        assert it.machine("main").woken_from == BASE.id
        assert it.workshop.reseeded == {"main": True}


@in_a_loop
async def test_leaving_a_session_ends_every_machine_and_says_so_on_record(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(2)
    assert it.workshop.living() == []
    async with office(tmp_path) as again:
        states = {branch.state for branch in again.session.branches() if branch.name != "main"}
        assert states == {BranchState.LOST}


@in_a_loop
async def test_a_machine_that_is_just_ending_takes_no_memory_and_ends_no_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(_machine: FakeMachine) -> tuple[int, int]:
        raise ProcessLookupError(3, "No such process")

    async with office(tmp_path, budgets=Budgets(memory_bytes=1 << 40)) as it:
        monkeypatch.setattr(FakeMachine, "memory", ending)
        assert it.session.current.memory() is None
        assert it.view.own_bytes() == {}
        assert len(await it.session.fork(1)) == 1


async def fork_until_full(folder: Path, workshop: FakeWorkshop) -> None:
    """A session left when there is no more room."""
    async with office(folder, workshop) as it:
        await it.session.fork(3)
        it.journal.full = frozenset({"branches"})


@in_a_loop
async def test_leaving_a_session_on_a_full_disk_ends_every_machine_all_the_same(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop()
    with pytest.raises(StorageError):
        await fork_until_full(tmp_path, workshop)
    assert len(workshop.machines) == 4
    assert workshop.living() == []


@in_a_loop
async def test_a_session_whose_first_branch_cannot_be_recorded_leaves_no_machine(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop()
    with pytest.raises(StorageError):
        async with office(tmp_path, workshop, full=frozenset({"branches"})):
            pass
    assert len(workshop.machines) == 1
    assert workshop.living() == []


@in_a_loop
async def test_a_session_whose_first_machine_does_not_wake_says_why(tmp_path: Path) -> None:
    workshop = FakeWorkshop(wake_errors={"main": WakeError("it did not wake")})
    with pytest.raises(WakeError, match="it did not wake"):
        async with office(tmp_path, workshop):
            pass


@in_a_loop
async def test_an_error_of_who_uses_a_session_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        async with office(tmp_path) as it:
            it.session.branch("nobody")


CANNOT = [FreezeError("it could not be brought to rest"), FULL, asyncio.CancelledError()]


@pytest.mark.parametrize("error", CANNOT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", ["draft", "publish"])
@in_a_loop
async def test_a_checkpoint_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, error: BaseException, step: str
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("before")
        as_it_was = snapshot(it)
        setattr(it.workshop, f"{step}_error", error)
        with pytest.raises(type(error)):
            await it.session.checkpoint("failed")
        assert snapshot(it) == as_it_was
        assert it.machine("main").runs


@in_a_loop
async def test_a_checkpoint_that_cannot_be_recorded_leaves_no_files(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        as_it_was = snapshot(it)
        it.journal.full = frozenset({"checkpoints"})
        with pytest.raises(StorageError):
            await it.session.checkpoint("failed")
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_the_disk_of_a_checkpoint_that_was_not_recorded_is_in_the_next_one(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        it.journal.full = frozenset({"checkpoints"})
        with pytest.raises(StorageError):
            await it.session.checkpoint("failed")
        assert it.machine("main").saved == 0
        it.journal.full = frozenset()
        await it.session.checkpoint("next")
        assert it.machine("main").saved == 1


@in_a_loop
async def test_a_silent_machine_is_not_brought_to_rest_to_be_saved(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        as_it_was = snapshot(it)
        it.machine("main").silent = True
        # It would be told apart by this error, if it came to that.
        it.workshop.draft_error = FreezeError("it could not be brought to rest")
        with pytest.raises(MachineError, match="no answer"):
            await it.session.checkpoint("never")
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_a_dead_machine_cannot_be_saved_and_says_why_and_what_to_do(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        it.machine("main").failure = KernelDiedError("the kernel was killed by signal 9")
        with pytest.raises(UsageError, match="signal 9") as caught:
            await it.session.checkpoint("too-late")
        assert "%rollback" in caught.value.hint
        assert it.session.current.state is BranchState.LOST


@in_a_loop
async def test_forks_that_fail_are_reported_each_by_itself(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        error = WakeError("it did not wake")
        it.workshop.wake_errors["two"] = error
        report = await it.session.fork(3, names=["one", "two", "three"])
        assert [branch.name for branch in report] == ["one", "three"]
        assert [(failure.name, failure.error) for failure in report.failures] == [("two", error)]
        assert [branch.name for branch in it.session.branches()] == ["main", "one", "three"]
        assert it.machine("main").runs


@in_a_loop
async def test_forks_are_numbered_among_their_siblings_from_one(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        for _ in range(2):
            report = await it.session.fork(3)
            assert [branch.record.index for branch in report] == [1, 2, 3]
        assert it.session.current.record.index == 0


@pytest.mark.parametrize("same_random", [False, True])
@in_a_loop
async def test_forks_are_reseeded_unless_they_are_to_stay_the_same(
    tmp_path: Path,
    same_random: bool,  # noqa: FBT001
) -> None:
    async with office(tmp_path) as it:
        report = await it.session.fork(2, names=["a", "b"], same_random=same_random)
        assert report.reseeded is not same_random
        assert {it.workshop.reseeded[name] for name in "ab"} == {not same_random}


@in_a_loop
async def test_a_fork_that_is_called_off_leaves_no_machine_and_no_branch(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("start")
        as_it_was = snapshot(it)
        it.workshop.wake_holds["slow"] = asyncio.Event()
        awake = it.workshop.awake["quick"]
        forking = asyncio.create_task(it.session.fork(2, start="start", names=["quick", "slow"]))
        await awake.wait()
        forking.cancel()
        await asyncio.wait([forking])
        assert forking.cancelled()
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_an_error_nobody_foresaw_in_one_fork_ends_the_others(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("start")
        as_it_was = snapshot(it)
        it.workshop.wake_errors["two"] = ZeroDivisionError("a bug")
        with pytest.raises(ZeroDivisionError):
            await it.session.fork(2, start="start", names=["one", "two"])
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_forks_that_cannot_be_recorded_leave_no_machine(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("start")
        as_it_was = snapshot(it)
        it.journal.full = frozenset({"branches"})
        with pytest.raises(StorageError):
            await it.session.fork(2, start="start")
        it.journal.full = frozenset()
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_too_many_forks_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        as_it_was = snapshot(it)
        with pytest.raises(UsageError, match="999"):
            await it.session.fork(999)
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_keeping_a_branch_saves_the_others_before_it_ends_them(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(2, names=["a", "b"])
        report = await it.session.keep("a")
        assert {branch.name for branch in report.parked} == {"main", "b"}
        for branch in report.parked:
            head = next(c for c in it.session.checkpoints() if c.id == branch.record.head)
            assert (branch.state, head.kind) == (BranchState.PARKED, CheckpointKind.PARKED)
        assert it.workshop.living() == [it.machine("a")]


@in_a_loop
async def test_a_branch_that_cannot_be_saved_is_not_ended_by_a_keep_that_names_it(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(2, names=["a", "b"])
        it.workshop.publish_error = CheckpointError("no room")
        report = await it.session.keep("a")
        assert it.session.current.name == report.branch.name == "a"
        assert report.parked == ()
        assert {(it.name, str(it.error)) for it in report.failures} == {
            ("main", "no room"),
            ("b", "no room"),
        }
        assert len(it.workshop.living()) == 3
        assert all(machine.runs for machine in it.workshop.living())


@in_a_loop
async def test_a_dead_branch_is_lost_and_not_saved_by_a_keep(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(2, names=["a", "b"])
        it.machine("b").failure = MachineEndedError("it was killed")
        await it.session.keep("a")
        assert it.session.branch("b").state is BranchState.LOST


@in_a_loop
async def test_a_parked_branch_that_does_not_wake_leaves_the_current_one(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(1, names=["a"])
        await it.session.keep("main")
        as_it_was = snapshot(it)
        it.workshop.wake_errors["a"] = WakeError("it did not wake")
        with pytest.raises(WakeError):
            await it.session.switch("a")
        assert snapshot(it) == as_it_was


@in_a_loop
async def test_operations_are_done_one_after_another(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        it.workshop.wake_holds["main"] = asyncio.Event()
        rolling = asyncio.create_task(it.session.rollback("goal", safety=False))
        saving = asyncio.create_task(it.session.checkpoint("after"))
        await asyncio.sleep(0.03)
        assert not saving.done()
        it.workshop.wake_holds["main"].set()
        await rolling
        assert (await saving).parent == it.session.find("goal").id


@in_a_loop
async def test_each_operation_is_on_record_with_what_it_took(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        await it.session.fork(1, start="goal", names=["a"])
        await it.session.rollback("goal", safety=False)
        await it.session.keep("a")
        await it.session.switch("main")
        await it.session.drop(["a"])
        verbs = [operation.op for operation in it.session.operations()]
        assert verbs == [
            "start",
            "checkpoint",
            "fork",
            "rollback",
            "checkpoint",
            "keep",
            "reopen",
            "drop",
        ]
