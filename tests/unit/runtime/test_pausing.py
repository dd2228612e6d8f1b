"""A branch is paused whole or runs on, and comes back or stays as it was."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fake_workshop import (
    FULL,
    FakeMachine,
    FakeWorkshop,
    FullJournal,
    Office,
    office,
    snapshot,
)
from tests.support.front_end import in_a_loop
from tests.unit.ledger.facts import a_draft, an_outcome

from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.errors import (
    CheckpointError,
    DamagedError,
    FreezeError,
    MachineEndedError,
    StorageError,
    UsageError,
    WakeError,
)
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointKind
from branchpoint_vmruntime.reports import ResumeReport


def runs_on(it: Office, machine: FakeMachine) -> bool:
    """Whether main is live with the machine it had, which runs."""
    main = it.session.current
    return main.state is BranchState.LIVE and it.machine("main") is machine and machine.runs


@in_a_loop
async def test_what_cannot_be_captured_or_written_runs_on_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop()
    async with office(tmp_path, workshop) as it:
        await it.session.checkpoint("before")
        before, machine = snapshot(it), it.machine("main")
        workshop.draft_error = FreezeError("it does not come to rest")
        with pytest.raises(FreezeError):
            await it.session.pause()
        workshop.draft_error, workshop.publish_error = None, CheckpointError("cannot be written")
        with pytest.raises(CheckpointError):
            await it.session.pause()
        assert snapshot(it) == before
        assert runs_on(it, machine)


@in_a_loop
async def test_a_checkpoint_that_cannot_be_put_on_record_leaves_the_machine_running(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        before, machine = snapshot(it), it.machine("main")
        it.journal.full = frozenset({"checkpoints"})
        with pytest.raises(StorageError):
            await it.session.pause()
        assert snapshot(it) == before
        assert runs_on(it, machine)


@in_a_loop
async def test_a_pause_that_cannot_be_put_on_record_leaves_the_machine_running_past_what_it_saved(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        machine = it.machine("main")
        it.journal.full = frozenset({"branches"})
        with pytest.raises(StorageError):
            await it.session.pause()
        it.journal.full = frozenset()
        assert runs_on(it, machine)
        # What was saved by then is whole, so it may stay, and the next one descends from it.
        saved = it.session.checkpoints()[-1]
        assert saved.kind is CheckpointKind.PAUSED
        assert (await it.session.checkpoint("next")).parent == saved.id


@in_a_loop
async def test_no_room_for_the_list_of_what_was_done_does_not_undo_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise FULL

    async with office(tmp_path) as it:
        with monkeypatch.context() as patch:
            patch.setattr(FullJournal, "add_operation", full)
            report = await it.session.pause()
        assert it.session.current.state is BranchState.PAUSED
        assert report.checkpoint.id in it.workshop.files
        assert (await it.session.resume()).checkpoint == report.checkpoint


@in_a_loop
async def test_a_machine_that_does_not_run_on_after_a_failed_pause_hides_not_why_it_failed(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop()
    async with office(tmp_path, workshop) as it:
        workshop.publish_error = FULL
        it.machine("main").run_on_error = MachineEndedError("it has ended")
        with pytest.raises(StorageError, match="full"):
            await it.session.pause()


@in_a_loop
async def test_a_pause_called_off_while_it_is_written_leaves_the_machine_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = asyncio.Event()

    async def publish(*_: object) -> Checkpoint:
        writing.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with office(tmp_path) as it:
        machine = it.machine("main")
        with monkeypatch.context() as patch:
            patch.setattr(it.workshop, "publish", publish)
            pausing = asyncio.create_task(it.session.pause())
            await writing.wait()
            assert not machine.runs
            pausing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await pausing
        assert runs_on(it, machine)


@in_a_loop
async def test_a_pause_called_off_while_the_machine_ends_has_ended_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def end(machine: FakeMachine) -> None:
        ending.set()
        await may_end.wait()
        machine.failure = MachineEndedError("the machine has ended")

    monkeypatch.setattr(FakeMachine, "end", end)
    async with office(tmp_path) as it:
        machine = it.machine("main")
        pausing = asyncio.create_task(it.session.pause())
        await ending.wait()
        pausing.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await pausing
        assert not machine.alive
        assert it.session.current.state is BranchState.PAUSED


@in_a_loop
async def test_a_paused_branch_takes_nothing_of_the_host_and_comes_back_from_its_last_moment(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("loaded")
        paused = await it.session.pause()
        assert it.workshop.living() == []
        assert (it.session.current.memory(), paused.freed_bytes) == (None, 9 << 20)
        resumed = await it.session.resume()
        assert it.machine("main").woken_from == paused.checkpoint.id == resumed.checkpoint.id
        assert it.machine("main").identity.reason == WakeReason.RESUME
        assert [operation.op for operation in it.session.operations()][-2:] == ["pause", "resume"]


@in_a_loop
async def test_pausing_what_is_paused_or_has_no_machine_is_refused_in_words(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.pause()
        with pytest.raises(UsageError, match="paused already"):
            await it.session.pause()
        await it.session.resume()
        await it.machine("main").end()
        with pytest.raises(UsageError, match="cannot be saved"):
            await it.session.pause()


@in_a_loop
async def test_a_branch_is_paused_while_others_look_into_its_checkpoints_and_its_forks_live(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        point = await it.session.checkpoint("point")
        await it.session.fork(2, start=point, names=["a", "b"])
        async with it.session.peek(point) as looked_into:
            await it.session.pause()
            assert looked_into.state is BranchState.LIVE
            assert it.session.branch("a").state is BranchState.LIVE
            await it.session.resume()
        assert it.session.current.state is BranchState.LIVE


@in_a_loop
async def test_a_paused_branch_is_forked_from_its_last_moment_without_being_resumed(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        paused = await it.session.pause()
        [fork] = await it.session.fork(1)
        assert fork.record.origin == paused.checkpoint.id
        assert it.session.current.state is BranchState.PAUSED


@in_a_loop
async def test_what_a_paused_branch_leaves_when_it_goes_back_is_its_last_moment(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        goal = await it.session.checkpoint("goal")
        paused = await it.session.pause()
        before = it.session.checkpoints()
        report = await it.session.rollback(goal)
        assert (report.safety, report.safety_note) == (paused.checkpoint, "")
        assert it.session.checkpoints() == before
        await it.session.pause()
        report = await it.session.rollback(goal, safety=False)
        assert (report.safety, report.safety_note) == (None, "not taken: --no-safety")


@in_a_loop
async def test_a_branch_that_cannot_be_resumed_stays_paused_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop()
    async with office(tmp_path, workshop) as it:
        await it.session.pause()
        before = snapshot(it)
        workshop.wake_errors["main"] = WakeError("it does not wake")
        with pytest.raises(WakeError):
            await it.session.awake()
        workshop.wake_errors.clear()
        it.journal.full = frozenset({"branches"})
        with pytest.raises(StorageError):
            await it.session.resume()
        it.journal.full = frozenset()
        assert snapshot(it) == before
        assert (await it.session.awake()).state is BranchState.LIVE


@in_a_loop
async def test_a_branch_whose_files_are_gone_says_which_and_what_can_be_done(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        good = await it.session.checkpoint("good")
        await it.session.checkpoint("bad")
        await it.session.pause()
        it.workshop.files.remove(it.session.find("bad").id)
        with pytest.raises(DamagedError, match=r"files are gone of 'bad'") as caught:
            await it.session.resume()
        assert "%rollback" in caught.value.hint
        assert it.session.current.state is BranchState.PAUSED
        await it.session.rollback(good)
        assert it.session.current.state is BranchState.LIVE


@in_a_loop
async def test_who_wants_a_paused_branch_at_the_same_time_gets_one_machine(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.pause()
        told: list[ResumeReport] = []
        it.session.on_resumed = told.append
        await asyncio.gather(*(it.session.awake() for _ in range(5)))
        assert len(it.workshop.living()) == len(told) == 1


@in_a_loop
async def test_keep_parks_each_branch_whole_or_lets_it_run_on(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(1, names=["other"])
        machine = it.machine("other")
        it.journal.full = frozenset({"branches"})
        report = await it.session.keep("main")
        assert [failure.name for failure in report.failures] == ["other"]
        it.journal.full = frozenset()
        assert it.session.branch("other").state is BranchState.LIVE
        assert machine.runs
        await it.session.keep("main")
        assert it.session.branch("other").state is BranchState.PARKED
        assert not machine.alive


@in_a_loop
async def test_the_edge_has_a_paused_branch_resumed_in_its_turn_and_leaves_others_alone(
    tmp_path: Path,
) -> None:
    turns = 0

    async with office(tmp_path) as it:

        class Turn:
            async def __aenter__(self) -> None:
                nonlocal turns
                turns += 1

            async def __aexit__(self, *_: object) -> None:
                pass

        it.session.turn = Turn
        view = it.view
        await view.awake("main")
        assert (turns, view.paused("main")) == (0, False)
        await it.session.pause()
        assert view.paused("main")
        await view.awake("main")
        assert (turns, it.session.current.state) == (1, BranchState.LIVE)


def wrote(it: Office, what: str) -> None:
    """Something main's machine has done outside."""
    ledger, incarnation = it.session.outside.ledger, it.machine("main").identity.incarnation
    ledger.note(a_draft(what, incarnation=incarnation), an_outcome())


def not_undone(it: Office, checkpoint: Checkpoint) -> list[str]:
    """What main has done outside that a checkpoint knows nothing of."""
    return [entry.draft.key for entry in it.session.outside.not_undone("main", checkpoint)]


@in_a_loop
async def test_what_a_paused_branch_has_done_outside_is_told_as_of_one_that_is_live(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        wrote(it, "before")
        loaded = await it.session.checkpoint("loaded")
        wrote(it, "an order")
        assert not_undone(it, loaded) == ["an order"]
        await it.session.pause()
        assert not_undone(it, loaded) == ["an order"]
        await it.session.resume()
        wrote(it, "another")
        await it.session.pause()
        assert not_undone(it, loaded) == ["an order", "another"]
        assert not_undone(it, it.session.checkpoints()[-1]) == []


@in_a_loop
async def test_what_a_lost_machine_did_outside_after_it_was_saved_is_told(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.pause()
        await it.session.resume()
        loaded = it.session.checkpoints()[-1]
        wrote(it, "an order")
        it.machine("main").failure = MachineEndedError("killed")
        await it.session.fork(1, start=loaded)
        await it.session.keep("main-1")
        assert it.session.branch("main").state is BranchState.LOST
        assert not_undone(it, loaded) == ["an order"]
        assert it.session.outside.not_undone("main-1", loaded) == []
