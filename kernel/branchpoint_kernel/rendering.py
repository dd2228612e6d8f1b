"""How commands look: a compact line or tree for people, in plain text and in HTML. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from branchpoint_vmruntime.branch_seam import Branch, MemoryUse
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointId, Moment
from branchpoint_vmruntime.reports import ForkReport, KeepReport, RollbackReport

_STYLE = "font-family:var(--jp-code-font-family,monospace);line-height:1.4"
# A page is often narrower than a line: what it does not show, nobody reads.
_ROW = "white-space:pre-wrap;overflow-wrap:anywhere;padding-left:2ch;text-indent:-2ch"
_AS_IT_IS = "white-space:pre"
_DIM = "opacity:.65"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a mark, a name, and what is said of it."""

    mark: str
    name: str
    facts: tuple[str, ...] = ()
    in_columns: bool = True

    def text(self, width: int) -> str:
        """As plain text, facts beginning in one column."""
        facts = " · ".join(fact for fact in self.facts if fact)
        return f"{self.mark} {self._padded(width)}   {facts}".rstrip()

    def html(self, width: int) -> str:
        """As HTML, the same columns; what is too long for the page goes on below, indented."""
        facts = escape(" · ".join(fact for fact in self.facts if fact))
        name = escape(self._padded(width))
        told = f'{escape(self.mark)} <b>{name}</b>   <span style="{_DIM}">{facts}</span>'
        return f'<div style="{_ROW}">{told}</div>'

    def _padded(self, width: int) -> str:
        return f"{self.name:<{width}}" if self.in_columns else self.name


class Verbatim(Line):
    """A line that is shown as it is: its name alone, not made bold."""

    def text(self, width: int) -> str:
        """As plain text."""
        return self.name

    def html(self, width: int) -> str:
        """As HTML."""
        return f'<div style="{_AS_IT_IS}">{escape(self.name) or "<br>"}</div>'


def as_text(lines: Sequence[Line]) -> str:
    """Lines as plain text."""
    width = _width(lines)
    return "\n".join(line.text(width) for line in lines)


def as_html(lines: Sequence[Line]) -> str:
    """Lines as HTML."""
    width = _width(lines)
    rows = "".join(line.html(width) for line in lines)
    return f'<div style="{_STYLE}">{rows}</div>'


def _width(lines: Sequence[Line]) -> int:
    return max((len(line.name) for line in lines if line.in_columns), default=0)


def note(mark: str, text: str, *facts: str) -> Line:
    """A line beside the columns."""
    return Line(mark, text, facts, in_columns=False)


def size(count: int) -> str:
    """Bytes for people.

    >>> size(38_200_000), size(1_100_000_000), size(900)
    ('38 MB', '1.1 GB', '0.9 kB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            value = count / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    value = count / 1e3
    return f"{value:.1f} kB" if 0 < value < 10 else f"{value:.0f} kB"


def duration(milliseconds: float) -> str:
    """Milliseconds for people.

    >>> duration(46.2), duration(1840), duration(104000)
    ('46 ms', '1.84 s', '104 s')
    """
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def memory_facts(memory: MemoryUse | None) -> str:
    """Own and shared memory, never added up."""
    if memory is None:
        return ""
    return f"{size(memory.own_bytes)} own, {size(memory.shared_bytes)} shared"


def checkpoint_lines(checkpoint: Checkpoint, *, pinned: bool = False) -> list[Line]:
    """What `%checkpoint` shows."""
    facts = (*_checkpoint_facts(checkpoint), "pinned" if pinned else "")
    return [Line("●", checkpoint.label, facts)]


def annotate_lines(was: Checkpoint, now: Checkpoint) -> list[Line]:
    """What `%annotate` shows."""
    before = f"was {was.label}" if was.label != now.label else ""
    return [Line("●", now.label, (before, now.note or "no note"))]


def _checkpoint_facts(checkpoint: Checkpoint) -> tuple[str, ...]:
    cost = checkpoint.cost
    return (
        f"guest paused {duration(cost.paused_ms)}",
        f"{size(cost.stored_bytes)} new",
        f"image {size(cost.shared_bytes)} shared" if cost.shared_bytes else "",
    )


def fork_lines(report: ForkReport) -> list[Line]:
    """What `%fork` shows: a tree of those that came up and those that did not."""
    lines = [
        Line(
            "├─",
            branch.name,
            (f"awake {duration(branch.cost.awake_ms)}", memory_facts(branch.memory())),
        )
        for branch in report.branches
    ]
    lines += [
        Line("├─", failure.name, ("did not come up", str(failure.error), failure.error.hint))
        for failure in report.failures
    ]
    if lines:
        last = lines[-1]
        lines[-1] = Line("└─", last.name, last.facts)
    return lines


def rollback_lines(report: RollbackReport, dropped: int) -> list[Line]:
    """What `%rollback` shows; `dropped` is how many queued cells it cost."""
    took = f"in {duration(report.total_ms)}"
    if report.safety is not None:
        safety = f"what was left is saved: %rollback {report.safety.label}"
    else:
        safety = f"safety checkpoint {report.safety_note}"
    lines = [note("●", f"back at {report.checkpoint.label} {took}", safety)]
    if dropped:
        cells = "1 queued cell was" if dropped == 1 else f"{dropped} queued cells were"
        lines.append(note("⚠", f"{cells} dropped", "sent before the rollback was done"))
    return lines


def keep_lines(report: KeepReport) -> list[Line]:
    """What `%keep` shows."""
    lines = [note("●", f"this notebook continues as {report.branch.name}")]
    if report.parked:
        names = ", ".join(branch.name for branch in report.parked)
        lines.append(note("○", f"parked: {names}", "%switch wakes one"))
    again = f"%keep {report.branch.name} tries it again"
    lines += [
        note("⚠", f"{failure.name} could not be parked and runs on", str(failure.error), again)
        for failure in report.failures
    ]
    return lines


def switch_lines(branch: Branch) -> list[Line]:
    """What `%switch` shows."""
    return [note("●", f"this notebook continues as {branch.name}", memory_facts(branch.memory()))]


def drop_lines(branches: Sequence[Branch]) -> list[Line]:
    """What `%drop` shows."""
    return [Line("✕", branch.name, ("dropped",)) for branch in branches]


def branches_lines(
    branches: Sequence[Branch],
    current: Branch,
    labels: Mapping[str, str],
    unseen: Mapping[str, int],
    ports: Mapping[str, str],
) -> list[Line]:
    """What `%branches` shows: those not dropped, the current one starred, with their forwards."""
    return [
        Line(
            "*" if branch.name == current.name else " ",
            branch.name,
            (
                branch.state.value,
                f"at {labels.get(branch.record.head, branch.record.head)}",
                memory_facts(branch.memory()),
                ports.get(branch.name, ""),
                f"{unseen[branch.name]} messages unseen" if unseen.get(branch.name) else "",
            ),
        )
        for branch in branches
        if branch.state is not BranchState.DROPPED
    ]


def open_as(key: str) -> str:
    """Where a branch carries on that another notebook has.

    >>> open_as("/notes/demo-ridge.ipynb")
    "open as 'demo-ridge.ipynb'"
    """
    return f"open as {name_of(key)!r}"


def name_of(key: str) -> str:
    """What a notebook is called, by the key of its session.

    >>> name_of("/notes/demo-ridge.ipynb")
    'demo-ridge.ipynb'
    """
    return key.rpartition("/")[2] or key


def came_back_lines(told: Iterable[tuple[str, str]]) -> list[Line]:
    """That branches are here again which were lent to notebooks, by their keys, never opened."""
    return [
        note("↩", f"{branch} is here again", f"{name_of(key)}, which had it, was never opened")
        for branch, key in told
    ]


def notice_lines(told: Iterable[str]) -> list[Line]:
    """What a session did by itself."""
    return [note("⚠", words) for words in told]


def checkpoints_lines(
    checkpoints: Sequence[Checkpoint], pins: Collection[CheckpointId] = ()
) -> list[Line]:
    """What `%checkpoints` shows."""
    return [
        Line(
            "●",
            checkpoint.label,
            (
                checkpoint.kind.value,
                f"on {checkpoint.branch}" if checkpoint.branch else "",
                _place(checkpoint.moment),
                f"{checkpoint.created_at.astimezone():%H:%M:%S}",
                size(checkpoint.cost.stored_bytes),
                "pinned" if checkpoint.id in pins else "",
                checkpoint.note,
            ),
        )
        for checkpoint in checkpoints
    ]


def _place(moment: Moment) -> str:
    for request in moment.open:
        if request.cell.source:
            return f"inside In[{request.cell.count}]"
    return f"after In[{moment.count}]" if moment.count else ""
