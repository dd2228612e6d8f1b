"""Which cells were run on which branch since its last checkpoint: what a checkpoint remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import Cell, CheckpointId, Moment, OpenRequest
from branchpoint_vmruntime.session import Session

SOURCE_LIMIT = 64 * 1024
# Whoever puts a text back into a document has to know one that is not whole by its end.
CUT = "\n… the rest of this cell is not kept …\n"


def cell_of(content: Mapping[str, Any], metadata: Mapping[str, Any], count: int) -> Cell | None:
    """The cell that an execute request runs, `count` being its number; None if it is no cell.

    >>> cell_of({"code": "x = 1"}, {"cellId": "c1"}, 4)
    Cell(id='c1', count=4, source='x = 1')
    """
    if content.get("silent", False) or not content.get("store_history", True):
        return None
    source = str(content.get("code", ""))
    if len(source) > SOURCE_LIMIT:
        source = source[: SOURCE_LIMIT - len(CUT)] + CUT
    return Cell(id=str(metadata.get("cellId") or ""), count=count, source=source)


@dataclass
class _Line:
    """What was run on a branch since it stood on `head` in one incarnation."""

    head: CheckpointId
    incarnation: str
    done: list[Cell] = field(default_factory=list[Cell])


class History:
    """The cells of a session's branches.

    A branch's list starts anew whenever it stands on another checkpoint, or is another waking of
    the same: it is then what was run since that checkpoint.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lines: dict[str, _Line] = {}
        self._ever: dict[tuple[str, int], Cell] = {}

    def note_cell(self, branch: str, cell: Cell) -> None:
        """A cell has been run on a branch to its end, well or not."""
        self._line(branch).done.append(cell)
        self._ever[cell.id, cell.count] = replace(cell, source="")

    def done(self, branch: str) -> tuple[Cell, ...]:
        """The cells run on a branch since its last checkpoint, oldest first."""
        return tuple(self._line(branch).done)

    def undone(self) -> tuple[Cell, ...]:
        """Every cell that was run so far, without its source: some may be on no line any more."""
        return tuple(self._ever.values())

    def count(self, branch: str) -> int:
        """The number of the last cell run on a branch, those before its last checkpoint too."""
        line = self._line(branch)
        return line.done[-1].count if line.done else self._at_head(line).count

    def moment(
        self,
        branch: str,
        *,
        cell: Cell | None = None,
        open: tuple[OpenRequest, ...] = (),  # noqa: A002
    ) -> Moment:
        """What a checkpoint of the branch taken now has to remember.

        `cell` is the one that asks for it; without one the last that was run counts.
        """
        done = self.done(branch)
        last = done[-1] if done else self._at_head(self._line(branch)).cell
        return Moment(count=self.count(branch), cell=cell or last, done=done, open=open)

    def _line(self, name: str) -> _Line:
        branch = self._session.branch(name)
        head, incarnation = branch.record.head, _incarnation(branch)
        line = self._lines.get(name)
        if line is None or (line.head, line.incarnation) != (head, incarnation):
            later = self._run_while_it_was_saved(line, head, incarnation)
            line = self._lines[name] = _Line(head, incarnation, later)
        return line

    def _run_while_it_was_saved(
        self, before: _Line | None, head: CheckpointId, incarnation: str
    ) -> list[Cell]:
        """The cells that came to their end between the moment that was saved and its being kept."""
        if before is None or not before.done or before.incarnation != incarnation:
            return []
        point = next((it for it in self._session.checkpoints() if it.id == head), None)
        # One whose moment nobody could tell has nothing to count from.
        if point is None or point.parent != before.head or not point.moment.count:
            return []
        return before.done[len(point.moment.done) :]

    def _at_head(self, line: _Line) -> Moment:
        points = self._session.checkpoints()
        return next((point.moment for point in points if point.id == line.head), Moment())


def _incarnation(branch: Branch) -> str:
    try:
        return branch.kernel.incarnation
    except BranchpointError:
        return ""
