"""How going back by cells and automatic checkpoints look. Pure."""

from collections.abc import Sequence

from branchpoint_kernel.diff_rendering import first_line
from branchpoint_kernel.rendering import Line, checkpoint_lines, note, rollback_lines
from branchpoint_vmruntime.lineage import Cell, Checkpoint
from branchpoint_vmruntime.reports import RollbackReport


def undo_lines(
    report: RollbackReport, cells: Sequence[Cell], asked: int, dropped: int
) -> list[Line]:
    """What `%undo` shows; `dropped` is how many queued cells it cost."""
    undone = "1 cell undone" if len(cells) == 1 else f"{len(cells)} cells undone"
    lines = [note("●", undone)]
    lines += [Line("↩", f"In[{cell.count}]", (first_line(cell.source),)) for cell in cells]
    if len(cells) > asked:
        lines.append(note("⚠", f"more than the {asked} asked for", "no checkpoint is nearer"))
    return [*lines, *rollback_lines(report, dropped)]


def autocheckpoint_lines(every: int, checkpoint: Checkpoint | None, failure: str) -> list[Line]:
    """What `%autocheckpoint` shows: how it is set, and the checkpoint it began with."""
    if not every:
        return [note("○", "autocheckpoint is off", "%autocheckpoint on switches it on")]
    cells = "every cell" if every == 1 else f"every {every} cells"
    lines = [note("●", f"autocheckpoint is on, after {cells}", "%undo goes back")]
    if checkpoint is not None:
        lines += checkpoint_lines(checkpoint)
    if failure:
        lines.append(note("⚠", "the last one failed", failure))
    return lines
