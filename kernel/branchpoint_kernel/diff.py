"""`%diff` and previews: looks into machines and says how they differ. Changes nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from branchpoint_kernel.commands import Diff
from branchpoint_kernel.comparison import Comparison, compare
from branchpoint_kernel.diff_rendering import (
    cells_lines,
    comparison_lines,
    comparison_record,
    first_line,
)
from branchpoint_kernel.effects import effects_lines, effects_record
from branchpoint_kernel.history import History
from branchpoint_kernel.insides import look_into, read_file
from branchpoint_kernel.leaving import Leavings
from branchpoint_kernel.records import cell_record
from branchpoint_kernel.rendering import Verbatim, name_of, note
from branchpoint_kernel.text_diff import text_diff
from branchpoint_kernel.told import Told
from branchpoint_kernel.undo import Undoing, cells_since, choose
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.lineage import BranchState, Cell, Checkpoint
from branchpoint_vmruntime.session import Session


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two machines: a live branch, or a checkpoint to be woken for a look."""

    name: str
    branch: Branch | None
    checkpoint: Checkpoint | None


class Differences:
    """Answers how branches and checkpoints differ, and what going back would undo."""

    def __init__(self, session: Session, history: History) -> None:
        self._session = session
        self._history = history
        self._leavings = Leavings(session)

    async def diff(self, command: Diff, branch: str | None) -> Told:
        """From one machine to another, or to a branch as it is now; None is the current one."""
        before = self._side(command.before)
        after = self._side(command.after if command.after is not None else self._name(branch))
        more = {"before": before.name, "after": after.name}
        if command.text is not None:
            lines = await self._text(command.text, before, after)
            shown = [Verbatim("", line, in_columns=False) for line in lines]
            return Told("diff", shown, {**more, "path": command.text, "text": lines})
        found = await self._compare(before, after)
        lines = [note("●", f"from {before.name} to {after.name}"), *comparison_lines(found)]
        return Told("diff", lines, {**more, **comparison_record(found)})

    async def preview(self, target: Checkpoint, branch: str | None) -> Told:
        """What a rollback of a branch to a checkpoint would do."""
        undone, redone = self._cells(target, self._name(branch))
        now = self._side(self._name(branch))
        found = await self._compare(now, _Side(target.label, None, target))
        lines = [
            note("○", f"%rollback {target.label} would do this; nothing has been done"),
            *cells_lines(undone),
        ]
        if redone:
            counted = (
                "1 cell run on that line counts"
                if len(redone) == 1
                else (f"{len(redone)} cells run on that line count")
            )
            lines.append(note(" ", f"{counted} again"))
        lines += [
            note("↻", f"In[{request.cell.count}] carries on", first_line(request.cell.source))
            for request in target.moment.open
            if request.cell.source
        ]
        lines.append(note(" ", "+ comes back, - goes, ~ becomes as it was"))
        lines += comparison_lines(found)
        effects = self._leavings.since(target, branch)
        lines += effects_lines(effects, "since then would not be undone") or [
            note("▸", "effects", "nothing has left the machine since then")
        ]
        more = {
            "target": target.label,
            "cells": [cell_record(cell) for cell in undone],
            "effects": effects_record(effects),
            **comparison_record(found),
        }
        return Told("preview", lines, more)

    def undoing(self, cells: int, branch: str | None) -> Undoing:
        """Where an undo by so many cells goes; UsageError if nowhere."""
        name = self._name(branch)
        return choose(self._path(name), self._history.done(name), cells)

    def _name(self, branch: str | None) -> str:
        return self._session.current.name if branch is None else branch

    def _cells(self, target: Checkpoint, branch: str) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
        """The cells that going back undoes, and those of another line that it brings."""
        path, goal = self._path(branch), self._session.path(target)
        ours = {point.id for point in path}
        meeting = next((point for point in goal if point.id in ours), goal[-1])
        done = self._history.done(branch)
        return cells_since(path, done, meeting), cells_since(goal, (), meeting)

    def _path(self, branch: str) -> list[Checkpoint]:
        return self._session.path(self._head(self._session.branch(branch)))

    def _head(self, branch: Branch) -> Checkpoint:
        return next(p for p in self._session.checkpoints() if p.id == branch.record.head)

    def _side(self, name: str) -> _Side:
        for branch in self._session.branches():
            if branch.name != name or branch.state is BranchState.DROPPED:
                continue
            if branch.state is BranchState.LIVE:
                return _Side(f"{name} as it is now", branch, None)
            head = self._head(branch)
            if branch.record.lent_to is not None:
                # What it has become there is that notebook's alone until it is given back.
                there = name_of(self._session.key_of(branch.record.lent_to)) or "another notebook"
                return _Side(f"{name} as it was lent to {there}, at {head.label}", None, head)
            return _Side(f"{name} as saved at {head.label}", None, head)
        try:
            found = self._session.find(name)
        except UnknownNameError as error:
            names = tuple(
                str(branch.name)
                for branch in self._session.branches()
                if branch.state is not BranchState.DROPPED
            )
            known = tuple(dict.fromkeys((*names, *error.known)))
            raise UnknownNameError("branch or checkpoint", name, known) from error
        # Pages ask by ids.
        return _Side(found.label, None, found)

    async def _compare(self, before: _Side, after: _Side) -> Comparison:
        # One after the other: two machines woken at once would take twice the memory.
        async with self._opened(before) as branch:
            first = await look_into(branch, before.name)
        async with self._opened(after) as branch:
            second = await look_into(branch, after.name)
        return compare(first, second)

    async def _text(self, path: str, before: _Side, after: _Side) -> list[str]:
        async with self._opened(before) as branch:
            first = await read_file(branch, path)
        async with self._opened(after) as branch:
            second = await read_file(branch, path)
        return await asyncio.to_thread(text_diff, path, first, second)

    @asynccontextmanager
    async def _opened(self, side: _Side) -> AsyncGenerator[Branch]:
        if side.branch is not None:
            yield side.branch
        elif side.checkpoint is not None:
            async with self._session.peek(side.checkpoint) as peeked:
                yield peeked
