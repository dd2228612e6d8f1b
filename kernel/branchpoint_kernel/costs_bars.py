"""What each branch has cost, as rows of bars: columns of time, memory, disk, tokens, money.

The phases of a waking are told apart by pattern as well as by colour.
"""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator

from branchpoint_kernel.costs_facts import PARTS, last_wakings
from branchpoint_kernel.costs_rendering import DROPPED, BranchStanding, CostsTold
from branchpoint_kernel.costs_sheet import (
    HEAD_IN,
    INK,
    QUIET,
    SIDE_IN,
    TITLE_IN,
    WIDTH_IN,
    as_ours,
    axes_at,
    entitle,
)
from branchpoint_vmruntime.outside.amounts import MICROS

_MOST_CHARACTERS = 24
_GAP_IN = 0.3
# How many times as wide as the others the first is, which has parts that are to be told apart.
_FIRST = 1.6
with as_ours():
    _NAMES = FontProperties(size=8.5)
_BAR = "#0072b2"
# Okabe and Ito's, which colour-blind readers can tell apart; the patterns do for print in grey.
_PART_COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7")
_PART_PATTERNS = ("", "////", "....", "\\\\\\\\", "xxxx")


@dataclass(frozen=True, slots=True)
class _Measure:
    """A column of bars: what it is called, its unit, and for each branch its parts and in words."""

    title: str
    unit: str
    parts: Mapping[str, Sequence[float]]
    words: Sequence[str]


def draw_branches(
    figure: Figure, rows: Sequence[BranchStanding], told: CostsTold, bars_in: float
) -> None:
    """Draw the bars of `rows`, of all the branches that are told of, at the top of a figure."""
    left_out = len(told.rows) - len(rows)
    which = f" ({len(rows)} of {len(told.rows)})" if left_out else ""
    height_in = figure.get_size_inches()[1]
    entitle(figure, height_in - TITLE_IN, f"What each branch has cost{which}")
    names = [_cut(row.name) for row in rows]
    names_in = max(map(_width_in, names), default=0.0)
    measures = _measures(rows, told)
    room_in = WIDTH_IN - names_in - SIDE_IN - _GAP_IN * len(measures)
    each_in = room_in / (len(measures) - 1 + _FIRST)
    left_in = SIDE_IN + names_in + 0.1
    for number, measure in enumerate(measures):
        width_in = each_in if number else _FIRST * each_in
        place_in = (left_in, height_in - HEAD_IN - bars_in, width_in, bars_in)
        axes = axes_at(figure, place_in)
        _draw_measure(axes, measure, len(rows))
        axes.set_yticks(range(len(rows)), [] if number else names)
        axes.set_ylim(max(2, len(rows)) - 0.5, -0.5)
        if not number and any(map(any, measure.parts.values())):
            corner = ((left_in - 0.05) / WIDTH_IN, (place_in[1] - 0.46) / height_in)
            figure.legend(
                *axes.get_legend_handles_labels(),
                loc="center left",
                bbox_to_anchor=corner,
                ncols=len(PARTS),
                fontsize=7.5,
                handlelength=1.6,
                columnspacing=1.0,
                borderpad=0,
            )
        left_in += width_in + _GAP_IN


def _measures(rows: Sequence[BranchStanding], told: CostsTold) -> list[_Measure]:
    wakings = last_wakings(told.operations)
    awake = [wakings.get(row.name, {}) for row in rows]
    own = [row.memory.own_bytes / 1e6 if row.memory else 0.0 for row in rows]
    disk = [row.disk_bytes / 1e6 for row in rows]
    unit_s, unit = _unit_of_time(max((row.lived_s or 0.0 for row in rows), default=0.0))
    lived = [(row.lived_s or 0.0) / unit_s for row in rows]
    measures = [
        _Measure(
            "last waking, by phase",
            "ms",
            {part: [each.get(part, 0.0) for each in awake] for part in PARTS},
            [f"{sum(each.values()):,.0f}" if each else "\N{EN DASH}" for each in awake],
        ),
        _Measure(
            "own memory",
            "MB",
            {"": own},
            [
                f"{value:,.0f}" if row.memory else _without_memory(row)
                for value, row in zip(own, rows, strict=True)
            ],
        ),
        _Measure("on disk", "MB", {"": disk}, [f"{value:,.0f}" for value in disk]),
        _Measure("time lived", unit, {"": lived}, [f"{value:,.1f}" for value in lived]),
    ]
    tokens = [row.cost.tokens for row in rows]
    if any(tokens):
        parts = {
            "in": [float(row.cost.tokens_in) for row in rows],
            "out": [float(row.cost.tokens_out) for row in rows],
        }
        measures.append(_Measure("tokens (out striped)", "", parts, [f"{n:,}" for n in tokens]))
    money = [row.cost.micros / MICROS for row in rows]
    if any(money):
        words = [f"{value:,.4f}" if value < 1 else f"{value:,.2f}" for value in money]
        measures.append(_Measure("money", told.currency, {"": money}, words))
    return measures


def _without_memory(row: BranchStanding) -> str:
    return DROPPED if row.state == DROPPED else "no machine"


def _draw_measure(axes: Axes, measure: _Measure, rows: int) -> None:
    left = [0.0] * rows
    patterns = _PART_PATTERNS if len(measure.parts) > 1 else ("",)
    colours = _PART_COLOURS if len(measure.parts) > 1 else (_BAR,)
    for (name, values), colour, pattern in zip(
        measure.parts.items(), colours, patterns, strict=False
    ):
        axes.barh(
            range(rows),
            values,
            left=left,
            height=0.62,
            color=colour,
            hatch=pattern,
            edgecolor="white",
            linewidth=0.5,
            label=name,
        )
        left = [start + value for start, value in zip(left, values, strict=True)]
    for row, (end, words) in enumerate(zip(left, measure.words, strict=True)):
        axes.annotate(
            words,
            (end, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=INK if end else QUIET,
        )
    # Room for what is written at the end of the longest.
    axes.set_xlim(0, max([*left, 0.0]) * (1.25 if len(measure.parts) > 2 else 1.5) or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(3 if len(measure.parts) <= 2 else 6))
    axes.xaxis.set_major_formatter(FuncFormatter(_shortly))
    unit = f" ({measure.unit})" if measure.unit else ""
    axes.set_title(f"{measure.title}{unit}", loc="left", color=INK)
    axes.grid(visible=False, axis="y")


def _shortly(value: float, _position: object) -> str:
    """Where there is little room.

    >>> _shortly(2500, 0), _shortly(30_000, 1), _shortly(2_500_000, 2)
    ('2,500', '30k', '2.5M')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 10_000 and value >= unit:
            return f"{value / unit:,.6g}{letter}"
    return f"{value:,.6g}"


def _width_in(words: str) -> float:
    width_points, _, _ = text_to_path.get_text_width_height_descent(words, _NAMES, ismath=False)
    return width_points / 72


def _unit_of_time(longest_s: float) -> tuple[float, str]:
    """The unit in which that is read with ease, in seconds, and what it is called.

    >>> _unit_of_time(90), _unit_of_time(600), _unit_of_time(90_000)
    ((1.0, 's'), (60.0, 'min'), (3600.0, 'h'))
    """
    if longest_s >= 2 * 3600:
        return 3600.0, "h"
    return (60.0, "min") if longest_s >= 180 else (1.0, "s")


def _cut(words: str) -> str:
    return words if len(words) <= _MOST_CHARACTERS else words[: _MOST_CHARACTERS - 1] + "…"
