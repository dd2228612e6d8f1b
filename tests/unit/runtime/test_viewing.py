"""What is shown of a session, as another process asks for it, and as it is on record."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.fake_workshop import BASE, FakeMachine, Office, office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.cell_lines import SHOWN_SOURCE
from branchpoint_vmruntime.control_facts import OwnerKind, from_json, to_json
from branchpoint_vmruntime.control_ops import ControlOps, handlers_for
from branchpoint_vmruntime.control_socket import MAX_ANSWER_BYTES, ControlServer
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    Cell,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
)
from branchpoint_vmruntime.lineage_view import LineageView, RanCell
from branchpoint_vmruntime.outside import stopping
from branchpoint_vmruntime.ownership import Ownership
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.viewing import view_of, view_on_record

LABEL = "größe-加载"


def a_cell(count: int, source: str = "x = 1") -> Cell:
    return Cell(id=f"cell-{count}", count=count, source=source)


def ran(*counts: int) -> tuple[RanCell, ...]:
    return tuple(RanCell(id=f"cell-{count}", count=count) for count in counts)


def drive(it: Office, *counts: int) -> list[Cell]:
    """Have the session say that those cells were run on its current branch since it was saved."""
    cells = [a_cell(count) for count in counts]
    it.session.ran = lambda branch: cells if branch == it.session.current.name else []

    async def witness(_branch: str) -> Moment:
        saved = tuple(cells)
        cells.clear()
        last = saved[-1] if saved else None
        return Moment(count=last.count if last else 0, cell=last, done=saved)

    it.session.witness = witness
    return cells


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[Office, SessionControl]]:
    owner = Ownership(kind=OwnerKind.KERNEL)
    async with office(folder) as it:
        handlers = {
            **handlers_for(it.register.as_found_now, it.session.outside.forwards, owner),
            **ControlOps(it.session, owner).handlers(),
        }
        socket = folder / "s-1.sock"
        async with ControlServer(socket, handlers), SessionControl(socket) as control:
            yield it, control


@in_a_loop
async def test_a_view_tells_of_checkpoints_branches_and_what_was_done(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        saved = await it.session.checkpoint(LABEL, note="vor dem Säubern")
        await it.session.pin(saved)
        await it.session.fork(2, names=["ridge", "forest"], start=saved)
        view = await control.view()
        assert (view.session, view.key, view.owner) == ("s-1", "notebook", OwnerKind.KERNEL)
        assert view.current == "main"
        told = view.checkpoints[-1].facts
        assert (told.label, told.note, told.pinned) == (LABEL, "vor dem Säubern", True)
        assert [(b.facts.name, b.facts.head_label) for b in view.branches] == [
            ("main", LABEL),
            ("ridge", LABEL),
            ("forest", LABEL),
        ]
        # The newest first.
        assert [done.op for done in view.operations] == ["fork", "fork", "checkpoint", "start"]
        assert view.branches[1].phases_ms == it.session.branch("ridge").cost.phases_ms


@in_a_loop
async def test_a_view_crosses_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two looks show the same: no time counts between them.
    monkeypatch.setattr(stopping, "TICK_S", 3600.0)
    async with served(tmp_path) as (it, control):
        drive(it, 1, 2)
        await it.session.checkpoint(LABEL)
        with it.session.changes.doing("fork", "main"):
            here = await view_of(it.session)
            assert await control.view() == here
        assert from_json(LineageView, json.loads(json.dumps(to_json(here)))) == here


@in_a_loop
async def test_the_cells_of_the_current_line_are_told_from_those_left(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        cells = drive(it, 1, 2)
        loaded = await it.session.checkpoint("loaded")
        cells += [a_cell(3)]
        view = await view_of(it.session)
        assert (view.line, view.left) == (ran(1, 2, 3), ())
        await it.session.rollback(loaded)
        view = await view_of(it.session)
        assert (view.line, view.left) == (ran(1, 2), ran(3))


@in_a_loop
async def test_what_the_driver_alone_knows_was_undone_is_left(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        it.session.undone = lambda: [a_cell(4)]
        assert (await view_of(it.session)).left == ran(4)


@in_a_loop
async def test_of_a_cell_one_short_line_is_shown(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        cells = drive(it)
        cells += [a_cell(1, "\nfit(" + "x" * 5000 + ")\nsecond line")]
        await it.session.checkpoint()
        shown = (await view_of(it.session)).checkpoints[-1]
        assert len(shown.source) == SHOWN_SOURCE
        assert shown.source.startswith("fit(xxx")
        assert (shown.cell, shown.count) == (*ran(1), 1)


@in_a_loop
async def test_a_view_of_a_thousand_checkpoints_fits_into_an_answer(tmp_path: Path) -> None:
    source = "model.fit(x)\n" * 500
    async with served(tmp_path) as (it, control):
        parent = BASE.id
        for number in range(1000):
            done = tuple(
                Cell(id=f"0a1b2c3d-0000-4000-8000-{number:08}{cell}", count=number, source=source)
                for cell in range(3)
            )
            point = Checkpoint(
                id=CheckpointId(f"c{number:07}"),
                session=it.session.record.id,
                parent=parent,
                label=f"auto-{number}",
                note="n" * 200,
                kind=CheckpointKind.AUTO,
                branch=BranchName("main"),
                created_at=datetime.now(UTC),
                key="fake",
                cost=CheckpointCost(phases_ms={f"phase-{it}": 1.25 for it in range(12)}),
                moment=Moment(count=number, cell=done[-1], done=done),
            )
            it.register.add_checkpoint(point, advance=it.session.branch("main"))
            parent = point.id
        view = await control.view()
        assert (len(view.checkpoints), len(view.line)) == (1001, 3000)
        # A quarter is what a session four times as long has room for.
        assert len(json.dumps(to_json(view))) < MAX_ANSWER_BYTES / 4


@in_a_loop
async def test_memory_is_read_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[threading.Thread] = []

    def memory(_branch: OwnedBranch) -> MemoryUse:
        readers.append(threading.current_thread())
        return MemoryUse(own_bytes=7, shared_bytes=11)

    async with office(tmp_path) as it:
        monkeypatch.setattr(OwnedBranch, "memory", memory)
        (branch,) = (await view_of(it.session)).branches
        assert (branch.facts.own_bytes, branch.facts.shared_bytes) == (7, 11)
        assert threading.main_thread() not in readers


@in_a_loop
async def test_a_machine_that_ends_while_it_is_looked_at_is_shown_without_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_machine: FakeMachine) -> tuple[int, int]:
        raise ProcessLookupError

    async with office(tmp_path) as it:
        monkeypatch.setattr(FakeMachine, "memory", gone)
        assert (await view_of(it.session)).branches[0].facts.own_bytes is None


@in_a_loop
async def test_whoever_watches_hears_of_the_next_change(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        seen = (await control.view()).version
        watching = asyncio.create_task(control.watch(seen))
        await it.session.checkpoint(LABEL)
        assert await watching > seen
        assert (await control.view()).checkpoints[-1].facts.label == LABEL


@in_a_loop
async def test_what_was_seen_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        seen = it.session.changes.version
        it.session.changes.note()
        assert await control.watch(seen) == seen + 1


@in_a_loop
async def test_where_nothing_changes_the_watch_ends_with_what_was_seen(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        seen = it.session.changes.version
        assert await control.watch(seen, timeout_s=0.02) == seen
        assert await control.ask("watch", seen=seen, for_s=0) == {"version": seen}


@in_a_loop
async def test_a_time_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, control):
        with pytest.raises(UsageError, match="for_s has to be a number of seconds, not 'soon'"):
            await control.ask("watch", seen=1, for_s="soon")
        with pytest.raises(UsageError, match="seconds, not -1"):
            await control.ask("watch", seen=1, for_s=-1)


@in_a_loop
async def test_what_is_done_is_told_as_under_way_until_it_is_over(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control), asyncio.timeout(120):
        go, saving = asyncio.Event(), asyncio.Event()

        async def held(_branch: str) -> Moment:
            saving.set()
            await go.wait()
            return Moment()

        it.session.witness = held
        async with SessionControl(tmp_path / "s-1.sock") as other:
            checkpoint = asyncio.create_task(other.checkpoint(LABEL))
            await saving.wait()
            view = await control.view()
            assert [(it.op, it.branch) for it in view.under_way] == [("checkpoint", "main")]
            go.set()
            await checkpoint
        assert (await control.view()).under_way == ()


@in_a_loop
async def test_a_failed_operation_is_under_way_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        with pytest.raises(UnknownNameError):
            await control.rollback("gone")
        assert it.session.changes.under_way == ()


@in_a_loop
async def test_each_thing_that_is_shown_is_told_of_when_it_changes(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        changes = it.session.changes

        def has_moved(before: int) -> int:
            assert changes.version > before
            return changes.version

        seen = changes.version
        saved = await it.session.checkpoint(LABEL)
        seen = has_moved(seen)
        await it.session.pin(saved)
        seen = has_moved(seen)
        await it.session.annotate(saved, note="a note")
        seen = has_moved(seen)
        await it.session.fork(1, names=["other"], start=LABEL)
        seen = has_moved(seen)
        await it.session.switch("other")
        seen = has_moved(seen)
        await it.session.rollback(LABEL)
        seen = has_moved(seen)
        await it.session.pause("main")
        seen = has_moved(seen)
        await it.session.drop(["main"])
        seen = has_moved(seen)
        it.machine("other").on_failure()
        has_moved(seen)


@in_a_loop
async def test_the_cells_of_a_branch_and_up_to_a_checkpoint_are_told_as_run(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (it, control):
        cells = drive(it, 1)
        await it.session.checkpoint(LABEL)
        cells += [a_cell(2, "print('größe')\n")]
        assert [(it.count, it.source) for it in await control.cells("main")] == [
            (1, "x = 1"),
            (2, "print('größe')\n"),
        ]
        assert [it.count for it in await control.cells(LABEL)] == [1]
        with pytest.raises(UnknownNameError, match="nowhere"):
            await control.cells("nowhere")


@in_a_loop
async def test_a_checkpoint_is_annotated_from_outside(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        await it.session.checkpoint("cp")
        named = await control.annotate("cp", label=LABEL)
        assert (named.label, named.note) == (LABEL, "")
        noted = await control.annotate(LABEL, note="rows with NaN\nare gone")
        assert (noted.label, noted.note) == (LABEL, "rows with NaN\nare gone")
        assert it.session.find(LABEL).id == named.id


@in_a_loop
async def test_an_annotation_that_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        await it.session.checkpoint(LABEL)
        with pytest.raises(UsageError, match="a label cannot contain ' '"):
            await control.annotate(LABEL, label="two words")
        with pytest.raises(UsageError, match="neither a label nor a note"):
            await control.annotate(LABEL)
        with pytest.raises(UsageError, match="'base' is not this session's own") as refused:
            await control.annotate("base", label="mine")
        assert "%checkpoint LABEL" in refused.value.hint
        with pytest.raises(UsageError, match=r"at most 4000 characters, not 5000: 'xxx"):
            await control.annotate(LABEL, note="x" * 5000)
        assert it.session.checkpoints()[-1].label == LABEL


@in_a_loop
async def test_half_a_character_in_a_note_is_no_failure(tmp_path: Path) -> None:
    async with served(tmp_path) as (it, control):
        await it.session.checkpoint(LABEL)
        assert (await control.annotate(LABEL, note="\ud83e half")).note == "\ufffd half"
        assert (await control.checkpoint("cp", note="🦊 \udfff")).note == "🦊 \ufffd"


def home_of(folder: Path) -> Home:
    home = Home(folder, folder / "run")
    home.ensure()
    return home


@in_a_loop
async def test_a_closed_session_is_shown_by_what_is_on_record(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    async with office(tmp_path) as it:
        drive(it, 1, 2)
        loaded = await it.session.checkpoint(LABEL)
        await it.session.pin(loaded)
        await it.session.fork(1, names=["other"], start=loaded)
        await it.session.pause("main")
    view = view_on_record(home, "s-1")
    assert (view.version, view.owner, view.current) == (0, None, "main")
    assert [(b.facts.name, b.facts.state) for b in view.branches] == [
        ("main", BranchState.PAUSED),
        ("other", BranchState.LOST),
    ]
    assert view.line == ran(1, 2)
    assert [c.facts.pinned for c in view.checkpoints] == [False, True, False]
    assert view.branches[1].facts.head_label == LABEL


@in_a_loop
async def test_what_was_live_when_its_owner_was_killed_is_shown_as_lost(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    async with office(tmp_path):
        # Nobody holds the folder of its layers: whoever had it open is gone.
        (branch,) = view_on_record(home, "s-1").branches
        assert branch.facts.state is BranchState.LOST


def test_a_session_that_is_on_no_record_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        view_on_record(home_of(tmp_path), "s-9")


@in_a_loop
async def test_a_session_of_another_name_is_refused_with_those_there_are(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    async with office(tmp_path):
        with pytest.raises(UnknownNameError, match=r"'s-9'.*s-1"):
            view_on_record(home, "s-9")
