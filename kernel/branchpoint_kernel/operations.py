"""Carries out commands on a session; what it hands back is ready to be displayed."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, assert_never

from branchpoint_kernel import commands, rendering
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.records import RECORD_TYPE, Fact, checkpoint_record, record
from branchpoint_kernel.rendering import Line, as_html, as_text
from branchpoint_vmruntime.errors import MachineStartError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import CheckpointKind
from branchpoint_vmruntime.session import Session

Bundle = Mapping[str, Any]


class Operations:
    """What commands do, but for running cells."""

    def __init__(self, session: Session, pumps: Pumps, drop_queued: Callable[[], int]) -> None:
        self._session = session
        self._pumps = pumps
        self._drop_queued = drop_queued

    async def perform(self, command: commands.Operation) -> Bundle:
        """Do it. BranchpointError, in words for the user, if it cannot be done."""
        try:
            return await self._perform(command)
        except UnknownNameError as error:
            raise with_hint(error) from error
        finally:
            self._pumps.adopt()

    async def _perform(self, command: commands.Operation) -> Bundle:
        match command:
            case commands.Checkpoint():
                return await self._checkpoint(command)
            case commands.Fork():
                return await self._fork(command)
            case commands.Rollback():
                return await self._rollback(command)
            case commands.Switch():
                return await self._switch(command)
            case commands.Keep():
                return await self._keep(command)
            case commands.Drop():
                return await self._drop(command)
            case commands.Branches():
                return self._branches()
            case commands.Checkpoints():
                return self._checkpoints()
            case _:
                assert_never(command)

    async def _checkpoint(self, command: commands.Checkpoint) -> Bundle:
        count = self._count()
        checkpoint = await self._session.checkpoint(command.label, note=command.note)
        self._pumps.remember_count(checkpoint.id, count)
        fact = Fact("checkpoint", checkpoint, checkpoint.cost.phases_ms, checkpoint.cost.total_ms)
        return self._outcome(fact, rendering.checkpoint_lines(checkpoint))

    async def _fork(self, command: commands.Fork) -> Bundle:
        start = None if command.start is None else self._session.find(command.start)
        count = self._count()
        report = await self._session.fork(
            command.count, start=start, names=command.names, same_random=command.same_random
        )
        if start is None:
            self._pumps.remember_count(report.origin.id, count)
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
        more = {
            "made": [branch.name for branch in report.branches],
            "failed": {failure.name: str(failure.error) for failure in report.failures},
            "reseeded": report.reseeded,
            "awake_ms": {branch.name: branch.cost.awake_ms for branch in report.branches},
        }
        phases = dict(report.branches[0].cost.phases_ms)
        return self._outcome(Fact("fork", report.origin, phases, report.total_ms, more), lines)

    async def _rollback(self, command: commands.Rollback) -> Bundle:
        if command.target is None:
            self._refuse_without_checkpoint()
        target = self._session.find(command.target)
        count = self._count()
        report = await self._session.rollback(target, safety=command.safety)
        if report.safety is not None:
            self._pumps.remember_count(report.safety.id, count)
        dropped = self._drop_queued()
        more = {
            "safety": report.safety.label if report.safety else None,
            "dropped_cells": dropped,
        }
        fact = Fact("rollback", report.checkpoint, report.phases_ms, report.total_ms, more)
        return self._outcome(fact, rendering.rollback_lines(report, dropped))

    async def _switch(self, command: commands.Switch) -> Bundle:
        branch = await self._session.switch(command.name)
        return self._outcome(Fact("switch"), rendering.switch_lines(branch))

    async def _keep(self, command: commands.Keep) -> Bundle:
        counts = {pump.branch.name: pump.execution_count for pump in self._pumps}
        report = await self._session.keep(command.name)
        for branch in report.parked:
            self._pumps.remember_count(branch.record.head, counts.get(branch.name, 0))
        more = {"parked": [branch.name for branch in report.parked]}
        fact = Fact("keep", None, {}, report.total_ms, more)
        return self._outcome(fact, rendering.keep_lines(report))

    async def _drop(self, command: commands.Drop) -> Bundle:
        dropped = await self._session.drop(command.names)
        more = {"dropped": [branch.name for branch in dropped]}
        return self._outcome(Fact("drop", more=more), rendering.drop_lines(dropped))

    def _branches(self) -> Bundle:
        labels = {str(point.id): point.label for point in self._session.checkpoints()}
        unseen = {str(pump.branch.name): len(pump.unseen) for pump in self._pumps}
        lines = rendering.branches_lines(
            self._session.branches(), self._session.current, labels, unseen
        )
        return self._outcome(Fact("branches"), lines)

    def _checkpoints(self) -> Bundle:
        points = self._session.checkpoints()
        more = {"checkpoints": [checkpoint_record(point) for point in points]}
        fact = Fact("checkpoints", more=more)
        return self._outcome(fact, rendering.checkpoints_lines(points))

    def _count(self) -> int:
        return next((p.execution_count for p in self._pumps if self._pumps.is_current(p)), 0)

    def _refuse_without_checkpoint(self) -> None:
        points = self._session.checkpoints()
        if all(point.kind is CheckpointKind.BASE for point in points):
            base = points[0].label if points else "base"
            raise UsageError(
                f"there is no checkpoint to go back to yet, only the fresh machine, {base!r}",
                hint=f"make one with %checkpoint LABEL, or start afresh with %rollback {base}",
            )

    def _outcome(self, fact: Fact, lines: Sequence[Line]) -> Bundle:
        return {
            "text/plain": as_text(lines),
            "text/html": as_html(lines),
            RECORD_TYPE: record(self._session, fact),
        }


def with_hint(error: UnknownNameError) -> UnknownNameError:
    """The same error, with what was probably meant."""
    close = get_close_matches(error.name, error.known, 1)
    listing = "%branches" if error.kind == "branch" else "%checkpoints"
    meant = f"did you mean {close[0]!r}? " if close else ""
    hint = f"{meant}type {listing} to see them"
    return UnknownNameError(error.kind, error.name, error.known, hint=hint)
