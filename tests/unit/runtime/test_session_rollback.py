"""Rollbacks that go wrong: the branch is where it was or where it is to be, never in between."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fake_workshop import FULL, office, snapshot
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import (
    BranchpointError,
    CheckpointError,
    FreezeError,
    MachineEndedError,
    StorageError,
    WakeError,
)
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind


@in_a_loop
async def test_a_rollback_ends_the_old_machine_only_once_the_new_one_is_awake(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        old = it.machine("main")
        it.workshop.wake_holds["main"] = asyncio.Event()
        rolling = asyncio.create_task(it.session.rollback("goal"))
        await it.workshop.left_standing.wait()
        assert old.alive
        it.workshop.wake_holds["main"].set()
        await rolling
        assert not old.alive
        assert it.machine("main").woken_from == it.session.find("goal").id
        assert it.machine("main").runs


@in_a_loop
async def test_a_rollback_keeps_the_generators_as_they_were(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        await it.session.rollback("goal")
        assert it.workshop.reseeded["main"] is False


FAILING_WAKES = [WakeError("it did not wake"), FULL, ZeroDivisionError("a bug")]


@pytest.mark.parametrize("error", FAILING_WAKES, ids=lambda error: type(error).__name__)
@in_a_loop
async def test_a_rollback_whose_target_does_not_wake_leaves_everything_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        as_it_was = snapshot(it)
        it.workshop.wake_errors["main"] = error
        with pytest.raises(type(error)):
            await it.session.rollback("goal")
        assert snapshot(it) == as_it_was
        assert it.machine("main").runs


@in_a_loop
async def test_a_rollback_that_is_called_off_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        as_it_was = snapshot(it)
        it.workshop.wake_holds["main"] = asyncio.Event()
        rolling = asyncio.create_task(it.session.rollback("goal"))
        await it.workshop.left_standing.wait()
        rolling.cancel()
        await asyncio.wait([rolling])
        assert snapshot(it) == as_it_was
        assert it.machine("main").runs


@in_a_loop
async def test_a_rollback_that_cannot_be_recorded_leaves_everything_as_it_was(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        as_it_was = snapshot(it)
        it.journal.full = frozenset({"branches"})
        with pytest.raises(StorageError):
            await it.session.rollback("goal")
        it.journal.full = frozenset()
        assert snapshot(it) == as_it_was
        assert it.machine("main").runs


UNSAFE = [FreezeError("it could not be brought to rest"), CheckpointError("no room")]


@pytest.mark.parametrize("error", UNSAFE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", ["draft", "publish"])
@in_a_loop
async def test_a_safety_checkpoint_that_fails_does_not_stop_a_rollback_and_is_told_of(
    tmp_path: Path, error: BranchpointError, step: str
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        setattr(it.workshop, f"{step}_error", error)
        report = await it.session.rollback("goal")
        assert report.safety is None
        assert str(error) in report.safety_note
        assert it.machine("main").woken_from == it.session.find("goal").id
        assert len(it.workshop.living()) == 1


@in_a_loop
async def test_an_error_nobody_foresaw_in_a_safety_checkpoint_leaves_no_second_machine(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        it.workshop.publish_error = ZeroDivisionError("a bug")
        with pytest.raises(ZeroDivisionError):
            await it.session.rollback("goal")
        assert len(it.workshop.living()) == 1
        assert it.machine("main").runs


@in_a_loop
async def test_a_silent_machine_does_not_hold_up_the_way_back(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        it.machine("main").silent = True
        report = await it.session.rollback("goal")
        assert report.safety is None
        assert "no answer" in report.safety_note
        assert it.machine("main").runs


@in_a_loop
async def test_a_branch_whose_machine_was_killed_can_be_rolled_back(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        it.machine("main").failure = MachineEndedError("it was killed by signal 9")
        report = await it.session.rollback("goal")
        assert "signal 9" in report.safety_note
        assert it.session.current.state is BranchState.LIVE


@in_a_loop
async def test_a_rollback_without_safety_takes_none_and_says_so(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("goal")
        report = await it.session.rollback("goal", safety=False)
        assert (report.safety, report.safety_note) == (None, "not taken: --no-safety")
        kinds = [checkpoint.kind for checkpoint in it.session.checkpoints()]
        assert CheckpointKind.SAFETY not in kinds
