"""How long each operation took over the session: a point for each, a line at each median.

Operations are told apart by shape as well as by colour.
"""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from branchpoint_kernel.costs_facts import latencies, median_and_often
from branchpoint_kernel.costs_rendering import CostsTold
from branchpoint_kernel.costs_sheet import (
    FOOT_IN,
    LATENCY_IN,
    QUIET,
    SIDE_IN,
    WIDTH_IN,
    axes_at,
    entitle,
)
from branchpoint_vmruntime.lineage import Operation

_AXIS_IN, _LEGEND_IN = 0.55, 2.75
_OP_LOOKS = {
    "checkpoint": ("o", "#0072b2"),
    "fork": ("^", "#d55e00"),
    "rollback": ("s", "#009e73"),
    "pause": ("D", "#cc79a7"),
    "resume": ("v", "#b87f00"),
    "start": ("P", "#444444"),
    "reopen": ("X", "#3a8fc0"),
    "bake": ("*", "#7d6200"),
}
_OTHER_LOOK = (".", QUIET)
_SAVING = "checkpoint"


def draw_latencies(figure: Figure, told: CostsTold) -> None:
    """Draw the points of all that was done at the foot of a figure."""
    timed = [operation for operation in told.operations if operation.total_ms > 0]
    entitle(figure, FOOT_IN + LATENCY_IN + 0.22, "How long each operation took")
    legend_in = _LEGEND_IN if timed else 0.0
    width_in = WIDTH_IN - SIDE_IN - _AXIS_IN - legend_in - 0.2
    axes = axes_at(figure, (SIDE_IN + _AXIS_IN, FOOT_IN, width_in, LATENCY_IN))
    axes.set_ylabel("latency (ms)")
    axes.set_xlabel("when (time of this computer)")
    if not timed:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(
            *(0.5, 0.5, "nothing has been done yet"),
            transform=axes.transAxes,
            horizontalalignment="center",
            verticalalignment="center",
            color=QUIET,
        )
        return
    _draw_points(axes, timed)
    paused = _draw_pauses(axes, timed, told.paused_ms)
    _set_limits(axes, timed, [*paused, *(each.total_ms for each in timed)])
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.02),
        title="median (dashed)",
        title_fontsize=7.5,
        fontsize=8,
        handletextpad=0.2,
        borderaxespad=0,
        alignment="left",
    )


def _draw_pauses(
    axes: Axes, timed: Sequence[Operation], paused_ms: Mapping[str, float]
) -> Sequence[float]:
    """Of checkpoints, how long the machine stood still: most of what one takes is the writing."""
    of = [it for it in timed if it.op == _SAVING and paused_ms.get(it.checkpoint or "", 0) > 0]
    times = [paused_ms[it.checkpoint or ""] for it in of]
    if times:
        marker, colour = _OP_LOOKS[_SAVING]
        axes.plot(
            _at(of),
            times,
            linestyle="none",
            marker=marker,
            markersize=6 if len(timed) < 100 else 4.5,
            markerfacecolor="white",
            markeredgecolor=colour,
            label=f"{_SAVING}, of it paused  {median_and_often(times)}",
        )
    return times


def _draw_points(axes: Axes, timed: Sequence[Operation]) -> None:
    for op, times in latencies(timed).items():
        marker, colour = _OP_LOOKS.get(op, _OTHER_LOOK)
        mine = [each for each in timed if each.op == op]
        axes.plot(
            _at(mine),
            [each.total_ms for each in mine],
            linestyle="none",
            marker=marker,
            markersize=6 if len(timed) < 100 else 4.5,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=0.5,
            label=f"{op}  {median_and_often(times)}",
        )
        if len(times) > 1:
            axes.axhline(median(times), color=colour, linewidth=0.9, linestyle=(0, (6, 3)))


def _set_limits(axes: Axes, timed: Sequence[Operation], times_ms: Sequence[float]) -> None:
    axes.set_yscale("log")
    shortest, longest = min(times_ms), max(times_ms)
    axes.set_ylim(shortest / 1.8, longest * 1.8)
    steps = (1, 2, 5) if longest / shortest < 100 else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(_plainly))
    axes.minorticks_off()
    first, last = (pick(map(_on_the_wall, timed)) for pick in (min, max))
    aside = max((last - first) / 30, timedelta(seconds=5))
    axes.xaxis_date()
    axes.set_xlim(first - aside, last + aside)  # pyright: ignore[reportArgumentType]
    locator = AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _at(operations: Sequence[Operation]) -> Any:
    return date2num([_on_the_wall(each) for each in operations])


def _on_the_wall(operation: Operation) -> datetime:
    """When it was, as clocks here show it; an axis knows no zones that are at their own time."""
    return operation.at.astimezone().replace(tzinfo=None)


def _plainly(value: float, _position: object) -> str:
    return f"{value:,.6g}"
