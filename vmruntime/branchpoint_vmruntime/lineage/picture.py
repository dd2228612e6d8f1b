"""The lineage drawn like a git log: a rail per line of work, a row per checkpoint with its cost.

States are told apart by shape, line and word, never by colour alone.
"""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import BinaryIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Curve
from matplotlib.textpath import text_to_path

from branchpoint_vmruntime.drawing_settings import settings_of_ours
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointKind,
    Operation,
)
from branchpoint_vmruntime.lineage.colours import COLOURS, colour_numbers
from branchpoint_vmruntime.lineage.layout import Placed, place

_LANE_IN = 0.28
_ROW_IN = 0.29
_MARGIN_IN = 0.34
_TOP_IN = 0.66
_FOOT_IN = 0.50
_GAP_IN = 0.30
_COLUMN_IN = 0.95
_MIN_WORDS_IN = 1.8
_DPI = 150
# Agg refuses pictures of 2^16 pixels or more in one direction (matplotlib 3.10).
_MAX_PIXELS = 60_000
_MAX_CHARACTERS = 44

_INK = "#1f2328"
_QUIET = "#656d76"
_FAINT = "#d0d7de"
_BAND = "#f3f6fa"

with settings_of_ours():
    _BOLD = FontProperties(weight="bold", size=9)
    _PLAIN = FontProperties(size=9)
    _SMALL = FontProperties(size=8)


@dataclass(frozen=True, slots=True)
class _Look:
    """How something is marked: the marker, whether it is filled, and the line that leads to it."""

    marker: str
    size: float
    filled: bool
    line: str = "-"


_BRANCH_LOOKS = {
    BranchState.LIVE: _Look(">", 7.5, filled=True),
    BranchState.PAUSED: _Look("s", 6.0, filled=True, line="--"),
    BranchState.PARKED: _Look("s", 6.0, filled=False, line="--"),
    BranchState.LENT: _Look(">", 7.5, filled=False, line="--"),
    BranchState.LOST: _Look("X", 7.5, filled=True, line="-."),
    BranchState.DROPPED: _Look("x", 6.0, filled=False, line=":"),
}
_CHECKPOINT_LOOKS = {
    CheckpointKind.BASE: _Look("D", 6.5, filled=True),
    CheckpointKind.USER: _Look("o", 8.0, filled=True),
    CheckpointKind.AUTO: _Look("o", 5.0, filled=True),
    CheckpointKind.SAFETY: _Look("o", 6.0, filled=False),
    CheckpointKind.PAUSED: _Look("o", 6.0, filled=False),
    CheckpointKind.PARKED: _Look("o", 6.0, filled=False),
    CheckpointKind.FORK_POINT: _Look("o", 6.0, filled=False),
}
_KIND_WORDS = {
    CheckpointKind.BASE: "fresh machine, shared by all sessions",
    CheckpointKind.USER: "",
    CheckpointKind.AUTO: "saved after a cell",
    CheckpointKind.SAFETY: "saved before a rollback",
    CheckpointKind.PAUSED: "saved when paused",
    CheckpointKind.PARKED: "saved when parked",
    CheckpointKind.FORK_POINT: "saved at a fork",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the picture: a place, and what is written beside it."""

    placed: Placed
    look: _Look
    colour: str
    title: str
    aside: str
    is_current: bool = False

    @property
    def spot(self) -> tuple[float, float]:
        return _MARGIN_IN + self.placed.lane * _LANE_IN, _TOP_IN + self.placed.row * _ROW_IN

    @property
    def words_in(self) -> float:
        return _width_in(self.title, _BOLD) + _width_in(self.aside, _PLAIN)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the columns of writing are, and the size of the whole, in inches."""

    words: float
    paused: float
    new: float
    width: float
    height: float


@settings_of_ours()
def draw(
    checkpoints: Sequence[Checkpoint],
    branches: Sequence[BranchRecord],
    operations: Sequence[Operation] = (),
    *,
    current: BranchName | None = None,
) -> Figure:
    """Draw a session; `current` is the branch the notebook is on."""
    rows = _rows(place(checkpoints, branches), branches, current)
    footer = summary(operations)
    columns = _columns(rows, footer)
    figure = Figure(figsize=(columns.width, columns.height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, columns.width)
    axes.set_ylim(columns.height, 0)
    axes.axis("off")
    _draw_frame(axes, columns, footer)
    forked_off_y: dict[int, float] = {}
    for row in rows:
        over = row.placed.parent_row
        if over is not None:
            # What goes straight on is placed last, so those that leave its line are known by now.
            _draw_edge(axes, rows[over], row, forked_off_y.get(over, 0.0))
            forked_off_y[over] = row.spot[1]
        _draw_row(axes, columns, row)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the picture; the ending of `path` (.png, .svg, .pdf) decides the format."""
    with path.open("wb") as file:
        _write_to(figure, file, path.suffix.removeprefix("."))


def svg(figure: Figure) -> bytes:
    """The picture as SVG."""
    content = io.BytesIO()
    _write_to(figure, content, "svg")
    return content.getvalue()


def png(figure: Figure, *, most_dpi: float = _DPI) -> bytes:
    """The picture as PNG, coarser than usual if so wanted."""
    content = io.BytesIO()
    _write_to(figure, content, "png", most_dpi)
    return content.getvalue()


@settings_of_ours()
def _write_to(figure: Figure, file: BinaryIO, form: str, most_dpi: float = _DPI) -> None:
    """The same lineage gives the same bytes."""
    dpi = min(most_dpi, resolution_dpi(max(figure.get_size_inches())))
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    figure.savefig(file, format=form, dpi=dpi, metadata=undated)


def resolution_dpi(longest_side_in: float) -> float:
    """Pixels per inch for a picture of that size."""
    return min(_DPI, _MAX_PIXELS / longest_side_in)


def summary(operations: Sequence[Operation]) -> str:
    """What was done, how often, and how long each took at the median.

    >>> summary([])
    ''
    """
    times_ms: dict[str, list[float]] = {}
    for operation in operations:
        times_ms.setdefault(operation.op, []).append(operation.total_ms)
    parts: list[str] = []
    for op, times in times_ms.items():
        often = f"{len(times)} \N{MULTIPLICATION SIGN} " if len(times) > 1 else ""
        parts.append(f"{often}{op} {median(times):,.0f} ms")
    return "   ·   ".join(parts)


def size(count: int) -> str:
    """Bytes for people.

    >>> size(38_200_000), size(3_000_000_000), size(200_000)
    ('38 MB', '3.0 GB', '0.2 MB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"


def _rows(
    placed: Sequence[Placed], branches: Sequence[BranchRecord], current: BranchName | None
) -> list[_Row]:
    colours = {name: COLOURS[number] for name, number in colour_numbers(branches).items()}
    rows: list[_Row] = []
    for each in placed:
        subject = each.subject
        if isinstance(subject, BranchRecord):
            here = subject.name == current
            aside = f"{subject.state}, this notebook" if here else str(subject.state)
            name, look = subject.name, _BRANCH_LOOKS[subject.state]
            colour = colours[name] if subject.state is not BranchState.DROPPED else _QUIET
            rows.append(_Row(each, look, colour, _cut(name), aside, is_current=here))
        else:
            colour = colours.get(subject.branch, _INK)
            # A base's note is about the image, not about this session.
            note = "" if subject.kind is CheckpointKind.BASE else subject.note
            aside = _cut(" · ".join(filter(None, (_KIND_WORDS[subject.kind], note))))
            title = _cut(subject.label or subject.id[:8])
            rows.append(_Row(each, _CHECKPOINT_LOOKS[subject.kind], colour, title, aside))
    return rows


def _columns(rows: Sequence[_Row], footer: str) -> _Columns:
    lanes = max((row.placed.lane for row in rows), default=0)
    words = _MARGIN_IN + lanes * _LANE_IN + _GAP_IN
    longest = max((row.words_in for row in rows), default=0.0)
    numbers = words + max(longest, _MIN_WORDS_IN) + 2 * _COLUMN_IN
    new = max(numbers, words + _width_in(footer, _SMALL))
    return _Columns(
        words=words,
        paused=new - _COLUMN_IN,
        new=new,
        width=new + _MARGIN_IN,
        height=_TOP_IN + len(rows) * _ROW_IN + _FOOT_IN - _ROW_IN / 2,
    )


def _draw_frame(axes: Axes, columns: _Columns, footer: str) -> None:
    head_y, foot_y = 0.24, columns.height - 0.20
    _write(axes, columns.words, head_y, "checkpoint or branch", _SMALL, colour=_QUIET)
    _write(axes, columns.paused, head_y, "paused", _SMALL, colour=_QUIET, side="right")
    _write(axes, columns.new, head_y, "new data", _SMALL, colour=_QUIET, side="right")
    _write(axes, columns.words, foot_y, footer, _SMALL, colour=_QUIET)
    for y in (head_y + 0.16, foot_y - 0.16):
        ends = [_MARGIN_IN / 2, columns.width - _MARGIN_IN / 2]
        axes.plot(ends, [y, y], color=_FAINT, linewidth=0.8, zorder=0)


def _draw_edge(axes: Axes, parent: _Row, child: _Row, forked_off_y: float) -> None:
    """Draw the line to a child, solid down to where the last of its siblings leaves it."""
    (x0, y0), (x1, y1) = parent.spot, child.spot
    bend = _ROW_IN / 2
    if x0 != x1:
        corner = [(x0, y1 - bend), (x0, y1), (x0 + bend, y1), (x1, y1)]
        codes = [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3, Curve.LINETO]
        _draw_curve(axes, Curve(corner, codes), child, child.look.line)
        return
    turn_y = max(y0, forked_off_y - bend)
    _draw_curve(axes, Curve([(x0, y0), (x0, turn_y)]), child, "-")
    _draw_curve(axes, Curve([(x0, turn_y), (x1, y1)]), child, child.look.line)


def _draw_curve(axes: Axes, curve: Curve, child: _Row, line: str) -> None:
    axes.add_patch(
        PathPatch(
            curve,
            fill=False,
            edgecolor=child.colour,
            linestyle=line,
            linewidth=2.8 if child.is_current else 1.8,
            capstyle="butt",
            zorder=2,
        )
    )


def _draw_row(axes: Axes, columns: _Columns, row: _Row) -> None:
    (x, y), subject = row.spot, row.placed.subject
    axes.plot(
        [x],
        [y],
        marker=row.look.marker,
        markersize=row.look.size,
        markerfacecolor=row.colour if row.look.filled else "white",
        markeredgecolor=row.colour,
        markeredgewidth=1.6,
        zorder=4,
    )
    if row.is_current:
        corner = (_MARGIN_IN / 2, y - _ROW_IN / 2)
        band = Rectangle(corner, columns.width - _MARGIN_IN, _ROW_IN, color=_BAND, zorder=0)
        axes.add_patch(band)
    is_tip = isinstance(subject, BranchRecord)
    _write(axes, columns.words, y, row.title, _BOLD, colour=row.colour if is_tip else _INK)
    after = columns.words + _width_in(row.title, _BOLD) + 0.1
    _write(axes, after, y, row.aside, _PLAIN, colour=_QUIET)
    if not isinstance(subject, BranchRecord):
        cost = subject.cost
        paused = f"{cost.paused_ms:,.0f} ms" if cost.paused_ms else "\N{EN DASH}"
        new = size(cost.stored_bytes)
        _write(axes, columns.paused, y, paused, _PLAIN, side="right")
        _write(axes, columns.new, y, new, _PLAIN, side="right")


def _write(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    font: FontProperties,
    *,
    colour: str = _INK,
    side: str = "left",
) -> None:
    axes.text(x, y, words, fontproperties=font, color=colour, ha=side, va="center_baseline")


def _width_in(words: str, font: FontProperties) -> float:
    width_points, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return width_points / 72


def _cut(words: str) -> str:
    return words if len(words) <= _MAX_CHARACTERS else words[: _MAX_CHARACTERS - 1] + "…"
