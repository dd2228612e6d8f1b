"""Which checkpoint an undo by so many cells goes back to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from branchpoint_kernel.cells import Code, split
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.lineage import Cell, Checkpoint, CheckpointKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """Where an undo goes, and the cells that were run since, oldest first."""

    target: Checkpoint
    cells: tuple[Cell, ...]


def cells_since(
    path: Sequence[Checkpoint], done: Sequence[Cell], target: Checkpoint
) -> tuple[Cell, ...]:
    """The cells run since a checkpoint of the path, oldest first.

    `path` leads from the branch's last checkpoint to the root, `done` are the cells since that.
    """
    since = tuple(done)
    for point in path:
        if point.id == target.id:
            break
        since = (*point.moment.done, *since)
    return since


def choose(path: Sequence[Checkpoint], done: Sequence[Cell], count: int) -> Undoing:
    """The newest checkpoint that is `count` cells back, or more, and was taken between cells.

    UsageError if there is none. The base is none: it is before all that the notebook did.
    """
    since = tuple(done)
    for place, point in enumerate(path):
        if point.kind is CheckpointKind.BASE:
            break
        before = path[place + 1] if place + 1 < len(path) else None
        if len(since) >= count and _was_between_cells(point, since, before):
            return Undoing(target=point, cells=since)
        since = (*point.moment.done, *since)
    cells = "1 cell" if count == 1 else f"{count} cells"
    raise UsageError(
        f"there is no checkpoint that is {cells} back and was taken between cells",
        hint="%autocheckpoint on takes one after every cell; %checkpoints lists what there is",
    )


def _was_between_cells(point: Checkpoint, since: Sequence[Cell], before: Checkpoint | None) -> bool:
    if any(request.cell.source for request in point.moment.open):
        return False
    asked = point.moment.cell
    if point.kind is CheckpointKind.AUTO or asked is None or not since:
        return True
    if (asked.id, asked.source) != (since[0].id, since[0].source):
        return True
    # A magic of this cell, which ran to its end later. Only what stands first in it is before it.
    is_second = before is not None and before.moment.cell == asked
    return _begins_with_a_magic(asked.source) and not is_second


def _begins_with_a_magic(source: str) -> bool:
    try:
        segments = split(source)
    except BranchpointError:
        return False
    return bool(segments) and not isinstance(segments[0], Code)
