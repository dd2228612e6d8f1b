"""Carries out commands on a session; what it hands back is ready to be displayed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, assert_never

from branchpoint_kernel import commands, rendering
from branchpoint_kernel.autocheckpoint import AutoCheckpoint
from branchpoint_kernel.bundles import Bundle, bundle
from branchpoint_kernel.copying import Copying, OnStep, nobody_watches
from branchpoint_kernel.diff import Differences
from branchpoint_kernel.drawing import Picture
from branchpoint_kernel.effects import effects_lines, effects_record
from branchpoint_kernel.history_rendering import autocheckpoint_lines, undo_lines
from branchpoint_kernel.image_commands import AddToImage, ResetImage, ShowImage
from branchpoint_kernel.image_operations import ImageOperations
from branchpoint_kernel.leaving import Effects, Leavings
from branchpoint_kernel.lineage_still import lineage_bundle
from branchpoint_kernel.outside_operations import OutsideOperations
from branchpoint_kernel.outside_rendering import forwarded_ports
from branchpoint_kernel.pause_operations import PauseOperations
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.records import Fact, cell_record, checkpoint_record
from branchpoint_kernel.rendering import Line, open_as
from branchpoint_kernel.told import Told
from branchpoint_kernel.turns import Turns
from branchpoint_kernel.under_way import doing
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import MachineStartError, UnknownNameError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointKind
from branchpoint_vmruntime.reports import RollbackReport
from branchpoint_vmruntime.session import Session

NOT_UNDONE = "since then {were} not undone"
UNKNOWN_TO_FORKS = "since then {were} made that the forks know nothing of"


@dataclass(frozen=True, slots=True)
class Done:
    """What an operation gave: what to display, the branches it woke, what a program gets of it.

    `picture` makes another display, below the first, where one can be shown.
    """

    shown: Bundle
    woken: tuple[Branch, ...] = ()
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])
    picture: Callable[[], Awaitable[Picture]] | None = None


class Operations:
    """What commands do, but for running cells."""

    def __init__(
        self,
        session: Session,
        pumps: Pumps,
        drop_queued: Callable[[], int],
        differences: Differences,
        auto: AutoCheckpoint,
        folder: Path,
        turns: Turns,
    ) -> None:
        self._session = session
        self._pumps = pumps
        self._drop_queued = drop_queued
        self._differences = differences
        self._auto = auto
        self._leavings = Leavings(session)
        self._outside = OutsideOperations(session, folder)
        self._image = ImageOperations(session)
        self._copying = Copying(session, folder)
        self._pauses = PauseOperations(session)
        self._turns = turns

    @property
    def under_way(self) -> bool:
        """Whether one is being carried out: machines may stand still."""
        return self._turns.under_way

    @property
    def pauses_itself(self) -> bool:
        """Whether a pause is under way that a cell asked for."""
        return self._pauses.under_way

    async def perform(
        self,
        command: commands.Operation,
        *,
        branch: str | None = None,
        require: Callable[[], None] = lambda: None,
    ) -> Done:
        """Do it, for the branch that asked or the current one.

        BranchpointError, in words for the user, if it cannot be done. `require` may raise one when
        the turn has come: what asked may have been left behind by what was done before.
        """
        if isinstance(command, commands.Copy):
            return await self.copy(command, branch=branch)
        async with self._turns.take(may_pause=isinstance(command, commands.Pause)):
            require()
            try:
                with doing(self._session, command, branch):
                    return await self._perform(command, branch)
            except UnknownNameError as error:
                raise with_hint(error) from error
            finally:
                self._pumps.adopt()
                self._pumps.look_again()

    async def copy(
        self, command: commands.Copy, *, branch: str | None = None, on_step: OnStep = nobody_watches
    ) -> Done:
        """Copy files. It takes no turn: machines run on, and may be saved, meanwhile."""
        return self._told(await self._copying.copy(command, branch, on_step))

    async def save_by_itself(self, branch: str) -> None:
        """Take an automatic checkpoint, in its turn."""
        async with self._turns.take():
            if self._session.branch(branch).state not in (BranchState.LIVE, BranchState.LOST):
                # It was saved when it was paused, parked or lent, after the same cell, or dropped.
                return
            with self._session.changes.doing("checkpoint", branch):
                await self._session.checkpoint(branch=branch, kind=CheckpointKind.AUTO)

    async def _perform(self, command: commands.InTurn, branch: str | None) -> Done:
        match command:
            case commands.Checkpoint():
                return await self._checkpoint(command, branch)
            case commands.Annotate():
                return await self._annotate(command, branch)
            case commands.Fork():
                return await self._fork(command, branch)
            case commands.Rollback():
                return await self._rollback(command, branch)
            case commands.Undo():
                return await self._undo(command, branch)
            case (
                commands.Switch()
                | commands.Keep()
                | commands.Drop()
                | commands.Pause()
                | commands.Resume()
            ):
                return await self._come_and_go(command, branch)
            case (
                commands.AutoCheckpoint()
                | commands.Diff()
                | commands.Branches()
                | commands.Checkpoints()
                | commands.ShowLineage()
            ):
                return await self._answer(command, branch)
            case ShowImage() | AddToImage() | ResetImage():
                return self._told(await self._image.perform(command, branch))
            case _:
                return self._told(await self._outside.perform(command, branch))

    async def _come_and_go(self, command: commands.ComeAndGo, branch: str | None) -> Done:
        match command:
            case commands.Switch():
                return await self._switch(command)
            case commands.Keep():
                return await self._keep(command)
            case commands.Drop():
                return await self._drop(command)
            case commands.Pause():
                return self._told(await self._pauses.pause(command, branch))
            case commands.Resume():
                told, resumed = await self._pauses.resume(command, branch)
                return replace(self._told(told), woken=(resumed,))
            case _:
                assert_never(command)

    async def _answer(self, question: commands.Question, branch: str | None) -> Done:
        match question:
            case commands.AutoCheckpoint():
                return await self._autocheckpoint(question, branch)
            case commands.Diff():
                return self._told(await self._differences.diff(question, branch))
            case commands.Branches():
                return self._branches()
            case commands.Checkpoints():
                return self._checkpoints()
            case commands.ShowLineage():
                return Done(await lineage_bundle(self._session))
            case _:
                assert_never(question)

    async def _checkpoint(self, command: commands.Checkpoint, branch: str | None) -> Done:
        checkpoint = await self._session.checkpoint(command.label, note=command.note, branch=branch)
        if command.pinned:
            await self._session.pin(checkpoint)
        cost, more = checkpoint.cost, {"pinned": command.pinned}
        fact = Fact("checkpoint", checkpoint, cost.phases_ms, cost.total_ms, more)
        lines = rendering.checkpoint_lines(checkpoint, pinned=command.pinned)
        value = {"label": checkpoint.label, "id": checkpoint.id}
        return self._outcome(fact, lines, value=value)

    async def _annotate(self, command: commands.Annotate, branch: str | None) -> Done:
        was = self._session.find(command.checkpoint, branch=branch)
        now = await self._session.annotate(was, label=command.label, note=command.note)
        more = {"was": {"label": was.label, "note": was.note}, "note": now.note}
        return self._outcome(Fact("annotate", now, more=more), rendering.annotate_lines(was, now))

    async def _fork(self, command: commands.Fork, branch: str | None) -> Done:
        start = None if command.start is None else self._session.find(command.start)
        report = await self._session.fork(
            command.count,
            start=start,
            names=command.names,
            same_random=command.same_random,
            branch=branch,
        )
        if not report.branches:
            first = report.failures[0]
            raise MachineStartError(
                f"no fork came up; {first.name}: {first.error}", hint=first.error.hint
            ) from first.error
        lines = rendering.fork_lines(report)
        if report.reseeded:
            lines.append(
                rendering.note(
                    "  ", "global random generators reseeded in each", "not with --same-random"
                )
            )
        unknown = Effects() if start is None else self._leavings.since(start, branch)
        lines += effects_lines(unknown, UNKNOWN_TO_FORKS)
        more = {
            "made": [branch.name for branch in report.branches],
            "failed": {failure.name: str(failure.error) for failure in report.failures},
            "reseeded": report.reseeded,
            "awake_ms": {branch.name: branch.cost.awake_ms for branch in report.branches},
            "effects": effects_record(unknown),
        }
        phases = dict(report.branches[0].cost.phases_ms)
        fact = Fact("fork", report.origin, phases, report.total_ms, more)
        value = {"index": 0, "names": more["made"]}
        return self._outcome(fact, lines, woken=report.branches, value=value)

    async def _rollback(self, command: commands.Rollback, branch: str | None) -> Done:
        target = self._session.find(command.target, branch=branch)
        if command.preview:
            return self._told(await self._differences.preview(target, branch), target)
        leaving = self._leavings.before(target, branch)
        report = await self._session.rollback(target, safety=command.safety, branch=branch)
        effects = await self._leavings.after(leaving)
        dropped = self._drop_behind(command, report)
        more = {
            "safety": report.safety.label if report.safety else None,
            "dropped_cells": dropped,
            "effects": effects_record(effects),
        }
        fact = Fact("rollback", report.checkpoint, report.phases_ms, report.total_ms, more)
        lines = [*rendering.rollback_lines(report, dropped), *effects_lines(effects, NOT_UNDONE)]
        return self._outcome(fact, lines, woken=(report.branch,))

    async def _undo(self, command: commands.Undo, branch: str | None) -> Done:
        undoing = self._differences.undoing(command.cells, branch)
        if command.preview:
            told = await self._differences.preview(undoing.target, branch)
            return self._told(told, undoing.target)
        leaving = self._leavings.before(undoing.target, branch)
        report = await self._session.rollback(undoing.target, safety=True, branch=branch)
        effects = await self._leavings.after(leaving)
        dropped = self._drop_behind(command, report)
        more = {
            "asked": command.cells,
            "cells": [cell_record(cell) for cell in undoing.cells],
            "safety": report.safety.label if report.safety else None,
            "dropped_cells": dropped,
            "effects": effects_record(effects),
        }
        fact = Fact("undo", report.checkpoint, report.phases_ms, report.total_ms, more)
        lines = undo_lines(report, undoing.cells, command.cells, dropped)
        lines += effects_lines(effects, NOT_UNDONE)
        return self._outcome(fact, lines, woken=(report.branch,))

    def _drop_behind(
        self, command: commands.Rollback | commands.Undo, report: RollbackReport
    ) -> int:
        """Drop the cells queued behind a way back of the branch they are for; how many."""
        if command.keep_queue or report.branch.name != self._session.current.name:
            return 0
        return self._drop_queued()

    async def _autocheckpoint(self, command: commands.AutoCheckpoint, branch: str | None) -> Done:
        checkpoint = None
        if command.every:
            checkpoint = await self._session.checkpoint(branch=branch, kind=CheckpointKind.AUTO)
        if command.every is not None:
            self._auto.switch(command.every)
        lines = autocheckpoint_lines(self._auto.every, checkpoint, self._auto.failure)
        more = {"every": self._auto.every, "failure": self._auto.failure or None}
        return self._outcome(Fact("autocheckpoint", checkpoint, more=more), lines)

    async def _switch(self, command: commands.Switch) -> Done:
        branch = await self._session.switch(command.name)
        lines = rendering.switch_lines(branch)
        return self._outcome(Fact("switch"), lines, woken=(branch,))

    async def _keep(self, command: commands.Keep) -> Done:
        report = await self._session.keep(command.name)
        more = {
            "parked": [branch.name for branch in report.parked],
            "failed": {failure.name: str(failure.error) for failure in report.failures},
        }
        fact = Fact("keep", None, {}, report.total_ms, more)
        return self._outcome(fact, rendering.keep_lines(report), woken=(report.branch,))

    async def _drop(self, command: commands.Drop) -> Done:
        dropped = await self._session.drop(command.names)
        more = {"dropped": [branch.name for branch in dropped]}
        return self._outcome(Fact("drop", more=more), rendering.drop_lines(dropped))

    def _branches(self) -> Done:
        labels = {str(point.id): point.label for point in self._session.checkpoints()}
        unseen = {str(pump.branch.name): len(pump.unseen) for pump in self._pumps}
        current = self._session.current
        ports = forwarded_ports(self._session.outside.forwards.list(), current.name)
        there = self._session.branches()
        lent = {it.name: it.record.lent_to for it in there if it.record.lent_to is not None}
        edge = {**ports, **{it: open_as(self._session.key_of(to)) for it, to in lent.items()}}
        lines = rendering.branches_lines(there, current, labels, unseen, edge)
        return self._outcome(Fact("branches"), lines)

    def _checkpoints(self) -> Done:
        points, pins = self._session.checkpoints(), self._session.pins()
        pinned = [point.id for point in points if point.id in pins]
        more = {"checkpoints": [checkpoint_record(point) for point in points], "pinned": pinned}
        fact = Fact("checkpoints", more=more)
        return self._outcome(fact, rendering.checkpoints_lines(points, pins))

    def _told(self, told: Told, checkpoint: Checkpoint | None = None) -> Done:
        fact = Fact(
            told.op, checkpoint or told.checkpoint, told.phases_ms, told.total_ms, told.more
        )
        return replace(self._outcome(fact, told.lines), picture=told.picture)

    def _outcome(
        self,
        fact: Fact,
        lines: Sequence[Line],
        *,
        woken: Sequence[Branch] = (),
        value: Mapping[str, Any] | None = None,
    ) -> Done:
        return Done(bundle(self._session, fact, lines), tuple(woken), value or {})


_LISTINGS = {
    "branch": "%branches",
    "secret": "%secrets",
    "key": "%ledger",
    "allowed host or group": "%egress",
}


def with_hint(error: UnknownNameError) -> UnknownNameError:
    """The same error, with what was probably meant, unless it says what to do already."""
    if error.hint:
        return error
    close = get_close_matches(error.name, error.known, 1)
    listing = _LISTINGS.get(error.kind, "%checkpoints")
    meant = f"did you mean {close[0]!r}? " if close else ""
    hint = f"{meant}type {listing} to see them"
    return UnknownNameError(error.kind, error.name, error.known, hint=hint)
