"""Costs as charts: what each branch has had, and how long each operation took over the session."""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false

import io
from collections.abc import Sequence

from matplotlib.figure import Figure

from branchpoint_kernel.costs_bars import draw_branches
from branchpoint_kernel.costs_facts import latencies, median_and_often
from branchpoint_kernel.costs_points import draw_latencies
from branchpoint_kernel.costs_rendering import DROPPED, BranchStanding, CostsTold
from branchpoint_kernel.costs_sheet import (
    BETWEEN_IN,
    FOOT_IN,
    HEAD_IN,
    LATENCY_IN,
    ROW_IN,
    WIDTH_IN,
    as_ours,
)

MOST_BRANCHES = 24
# More than the 96 to the inch of a page, for screens that show more.
_DPI = 150
WIDTH_PIXELS = round(WIDTH_IN * 96)


def png(told: CostsTold) -> bytes:
    """The charts as a picture. Not for the event loop's thread, and for one thread at a time."""
    content = io.BytesIO()
    with as_ours():
        draw(told).savefig(content, format="png", dpi=_DPI)
    return content.getvalue()


def draw(told: CostsTold) -> Figure:
    """The charts: a row for each branch, and below it a point for each operation."""
    rows = _most(told.rows)
    bars_in = ROW_IN * max(2, len(rows))
    height_in = HEAD_IN + bars_in + BETWEEN_IN + LATENCY_IN + FOOT_IN
    with as_ours():
        figure = Figure(figsize=(WIDTH_IN, height_in), facecolor="white")
        draw_branches(figure, rows, told, bars_in)
        draw_latencies(figure, told)
    return figure


def _most(rows: Sequence[BranchStanding]) -> Sequence[BranchStanding]:
    """As many as there is room for, in their order: the newest, and rather those that are there."""
    by_worth = sorted(enumerate(rows), key=lambda it: (it[1].state != DROPPED, it[0]))
    return [row for _, row in sorted(by_worth[-MOST_BRANCHES:], key=lambda it: it[0])]


def in_words(told: CostsTold) -> str:
    """What the picture shows, for whoever does not see it."""
    times = latencies(told.operations)
    medians = ", ".join(f"{op} {median_and_often(each)}" for op, each in times.items())
    many = "1 branch" if len(told.rows) == 1 else f"{len(told.rows)} branches"
    return f"Charts: what {many} cost; how long operations took at the median: {medians or 'none'}"
