"""Which cells are part of what a branch is now, and which of other futures alone. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from branchpoint_vmruntime.lineage import Cell, Checkpoint, CheckpointId, CheckpointKind
from branchpoint_vmruntime.lineage_view import RanCell

SHOWN_SOURCE = 80
# An id of a notebook's cell has at most 64 characters; what is longer was made up, and is no place.
_LONGEST_ID = 128
# Their cells ask for what they save, and stay. One that asks to go back, or to continue as another
# branch, belongs to none of the futures that it leads from or to.
_ASKED_BY_ITS_CELL = (CheckpointKind.USER, CheckpointKind.FORK_POINT)


def first_line(source: str) -> str:
    """The beginning of what a cell says, in one line.

    >>> first_line("  model.fit(x)")
    'model.fit(x)'
    """
    said = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return said if len(said) <= SHOWN_SOURCE else said[: SHOWN_SOURCE - 1] + "…"


def cells_of_line(
    checkpoints: Iterable[Checkpoint], head: str, ran: Sequence[Cell] = ()
) -> list[Cell]:
    """The cells that were run on the way to a checkpoint and since it, oldest first.

    Those of our magics alone count where they took a checkpoint that is on the way. `ran` are the
    cells run since.
    """
    cells: list[Cell] = []
    asking: list[Cell] = []
    for point in _path({point.id: point for point in checkpoints}, head):
        cells += _unless_told_again(asking, point.moment.done) + list(point.moment.done)
        asking = _asking(point)
    return [*cells, *_unless_told_again(asking, ran), *ran]


def line_and_left(
    checkpoints: Sequence[Checkpoint],
    head: str,
    ran: Sequence[Cell] = (),
    elsewhere: Iterable[Cell] = (),
) -> tuple[tuple[RanCell, ...], tuple[RanCell, ...]]:
    """The runs that are part of what stands on a checkpoint, and those of other futures alone.

    `ran` are the cells run since that checkpoint, `elsewhere` others that no checkpoint knows of.
    Cells without a place in a document are left out; each run is told once.
    """
    known = {point.id: point for point in checkpoints}
    path = _path(known, head)
    line = _runs([*(cell for point in path for cell in _known_to(point)), *ran])
    others = (cell for point in checkpoints for cell in _known_to(point))
    left = [run for run in _runs((*others, *elsewhere)) if run not in line]
    return tuple(line), tuple(left)


def _path(known: Mapping[CheckpointId, Checkpoint], head: str) -> list[Checkpoint]:
    """From the root to the checkpoint, as far as it is known: what is damaged is shown as well."""
    steps: dict[CheckpointId, Checkpoint] = {}
    step = known.get(CheckpointId(head))
    while step is not None and step.id not in steps:
        steps[step.id] = step
        step = None if step.parent is None else known.get(step.parent)
    return list(reversed(steps.values()))


def _known_to(point: Checkpoint) -> list[Cell]:
    return [*point.moment.done, *_asking(point)]


def _asking(point: Checkpoint) -> list[Cell]:
    """The cell that took a checkpoint, unless it is among those that had been run before."""
    asked = point.moment.cell
    if asked is None or point.kind not in _ASKED_BY_ITS_CELL or asked in point.moment.done:
        return []
    return [asked]


def _unless_told_again(asking: Sequence[Cell], after: Sequence[Cell]) -> list[Cell]:
    """A cell that went on after it had taken a checkpoint came to its end later: it is one cell."""
    ended = {(cell.id, cell.source) for cell in after[:1]}
    return [cell for cell in asking if (cell.id, cell.source) not in ended]


def _runs(cells: Iterable[Cell]) -> dict[RanCell, None]:
    # A magic before any cell of code has the number 0; a front end is told 1.
    return {
        RanCell(id=cell.id, count=max(1, cell.count)): None
        for cell in cells
        if cell.id and len(cell.id) <= _LONGEST_ID
    }
