"""What is on the charts of costs: the artists that are there, not their pixels."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from branchpoint_kernel.costs_charts import MOST_BRANCHES, draw, in_words, png
from branchpoint_kernel.costs_rendering import BranchStanding, CostsTold
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.lineage import BranchName, CheckpointId, Operation, SessionId
from branchpoint_vmruntime.outside.costs import BranchCost

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAKING = {
    "spawn": 5.0,
    "load-and-wake": 95.0,
    "guest-clock": 10.0,
    "guest-renew": 20.0,
    "guest-kernel": 30.0,
}


def done(op: str, branch: str = "main", *, after_s: float = 0, total_ms: float = 100) -> Operation:
    return Operation(
        session=SessionId("s"),
        op=op,
        branch=BranchName(branch),
        checkpoint=None,
        at=DAY + timedelta(seconds=after_s),
        total_ms=total_ms,
        phases_ms=WAKING if op in ("start", "fork", "rollback") else {"freeze": 9.0},
    )


def branch(
    name: str,
    *,
    state: str = "live",
    own_mb: int | None = 60,
    disk_mb: int = 0,
    tokens: int = 0,
    micros: int = 0,
) -> BranchStanding:
    memory = None if own_mb is None else MemoryUse(own_bytes=own_mb * 10**6, shared_bytes=4 * 10**8)
    cost = BranchCost(branch=name, tokens_in=tokens, tokens_out=tokens // 2, micros=micros)
    return BranchStanding(
        name=name,
        state=state,
        lived_s=30,
        memory=memory,
        disk_bytes=disk_mb * 10**6,
        forks=0,
        cost=cost,
    )


def told(rows: Sequence[BranchStanding], operations: Sequence[Operation] = ()) -> CostsTold:
    return CostsTold(rows=rows, gone=[], limits=[], currency="EUR", operations=operations)


def titles(figure: Figure) -> list[str]:
    found = [axes.get_title(loc="left") for axes in figure.axes]
    return [*(text.get_text() for text in figure.texts), *filter(None, found)]


def labels_of(figure: Figure) -> list[str]:
    """The names of the branches, from the top."""
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def widths(figure: Figure, column: int, row: int) -> list[float]:
    """The parts of a branch's bar."""
    bars = figure.axes[column].containers
    return [round(float(bar.patches[row].get_width()), 3) for bar in bars]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


def test_a_waking_is_drawn_in_parts_that_add_up() -> None:
    figure = draw(told([branch("main"), branch("ridge")], [done("start"), done("fork", "ridge")]))
    assert widths(figure, 0, 1) == [5, 35, 10, 20, 30]
    assert sum(widths(figure, 0, 1)) == 100


def test_only_the_last_waking_of_a_branch_counts() -> None:
    slower = replace(done("rollback"), phases_ms={**WAKING, "spawn": 50.0})
    assert widths(draw(told([branch("main")], [done("start"), slower])), 0, 0)[0] == 50


def test_tokens_and_money_are_drawn_if_there_are_any() -> None:
    assert not [title for title in titles(draw(told([branch("main")]))) if "tokens" in title]
    spent = draw(told([branch("main"), branch("ridge", tokens=100, micros=12_300)]))
    assert [title for title in titles(spent) if "tokens" in title or "money (EUR)" in title]
    assert widths(spent, 4, 1) == [100, 50]
    assert widths(spent, 5, 1) == [0.012]


def test_no_title_reaches_into_the_next_column() -> None:
    rows = [branch("a-branch-of-the-longest-name", tokens=10**6, micros=10**7)]
    figure = draw(told(rows, [done("start")]))
    renderer = FigureCanvasAgg(figure).get_renderer()
    columns = figure.axes[:-1]
    for axes, after in pairwise(columns):
        title = axes.get_title(loc="left")
        (words,) = [it for it in axes.findobj(Text) if it.get_text() == title]
        assert words.get_window_extent(renderer).x1 < after.get_window_extent(renderer).x0, title


def test_what_the_checkpoints_of_each_branch_take_on_disk_is_drawn() -> None:
    figure = draw(told([branch("main", disk_mb=40), branch("ridge", disk_mb=5)]))
    assert titles(figure)[2 + 2] == "on disk (MB)"
    assert [widths(figure, 2, row) for row in (0, 1)] == [[40], [5]]


def test_a_branch_without_a_machine_is_said_to_have_none() -> None:
    figure = draw(told([branch("main", own_mb=None)]))
    assert "no machine" in [text.get_text() for text in figure.axes[1].texts]
    figure = draw(told([branch("main", own_mb=None, state="dropped")]))
    assert "dropped" in [text.get_text() for text in figure.axes[1].texts]


@pytest.mark.parametrize("axes", range(4))
def test_every_measure_says_its_unit(axes: int) -> None:
    title = draw(told([branch("main")])).axes[axes].get_title(loc="left")
    assert title.endswith((" (ms)", " (MB)", " (s)"))


def test_each_operation_is_a_point_of_its_kind_and_the_medians_are_told() -> None:
    operations = [
        done("checkpoint", after_s=0, total_ms=80),
        done("checkpoint", after_s=60, total_ms=120),
        done("checkpoint", after_s=90, total_ms=4000),
        done("fork", "ridge", after_s=95, total_ms=300),
        done("drop", "ridge", after_s=99, total_ms=0),
    ]
    axes = draw(told([branch("main")], operations)).axes[-1]
    kinds = {str(line.get_label()): line for line in axes.lines if line.get_marker() != "None"}
    assert list(kinds) == ["checkpoint  120 ms, 3 times", "fork  300 ms, once"]
    assert len({str(line.get_marker()) for line in kinds.values()}) == 2
    (median,) = [line for line in axes.lines if line.get_marker() == "None"]
    assert list(median.get_ydata()) == [120, 120]  # pyright: ignore[reportArgumentType]
    assert axes.get_ylabel() == "latency (ms)"


def test_how_long_a_checkpoint_held_the_machine_up_is_beside_what_it_took() -> None:
    saved = replace(done("checkpoint", total_ms=900), checkpoint=CheckpointId("c1"))
    costs = replace(told([branch("main")], [saved]), paused_ms={"c1": 46.0, "of-a-pause": 70.0})
    axes = draw(costs).axes[-1]
    assert [str(line.get_label()) for line in axes.lines] == [
        "checkpoint  900 ms, once",
        "checkpoint, of it paused  46 ms, once",
    ]
    assert axes.get_ylim()[0] < 46


def test_every_kind_of_operation_has_a_shape_and_a_colour_of_its_own() -> None:
    kinds = ("start", "checkpoint", "fork", "rollback", "pause", "resume", "reopen", "bake")
    axes = draw(told([branch("main")], [done(kind) for kind in kinds])).axes[-1]
    assert len({str(line.get_marker()) for line in axes.lines}) == len(kinds)
    assert len({str(line.get_color()) for line in axes.lines}) == len(kinds)


def test_of_a_session_without_anything_there_are_charts_that_say_so() -> None:
    nothing = told([])
    assert "nothing has been done yet" in [text.get_text() for text in draw(nothing).axes[-1].texts]
    assert png(nothing).startswith(b"\x89PNG")


def test_many_branches_are_told_to_be_more_than_are_drawn() -> None:
    rows = [branch(f"main-{number}") for number in range(40)]
    figure = draw(told(rows))
    assert f"What each branch has cost ({MOST_BRANCHES} of 40)" in titles(figure)
    labels = labels_of(figure)
    assert (len(labels), labels[-1]) == (MOST_BRANCHES, "main-39")


def test_of_too_many_branches_those_that_were_dropped_make_room_for_the_others() -> None:
    tried = [branch(f"tried-{number}", state="dropped") for number in range(40)]
    labels = labels_of(draw(told([branch("main"), *tried, branch("ridge")])))
    assert labels[:2] == ["main", f"tried-{40 - MOST_BRANCHES + 2}"]
    assert labels[-2:] == ["tried-39", "ridge"]
    assert len(labels) == MOST_BRANCHES


def test_names_are_shown_as_they_are_or_cut_short() -> None:
    figure = draw(told([branch("a$b$c_{x}"), branch("Zweig" * 12)]))
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["a$b$c_{x}", "ZweigZweigZweigZweigZwe…"]
    assert not labels[0].get_parse_math()


def test_five_hundred_operations_and_names_the_font_lacks_are_drawn_without_a_warning() -> None:
    operations = [done("checkpoint", after_s=number, total_ms=1 + number) for number in range(500)]
    assert png(told([branch("分支")], operations)).startswith(b"\x89PNG")


def test_settings_of_others_are_left_as_they_were() -> None:
    before = dict(rcParams)
    png(told([branch("main")], [done("start")]))
    assert dict(rcParams) == before


def test_who_does_not_see_them_is_told_the_medians() -> None:
    operations = [done("checkpoint", total_ms=80), done("fork", total_ms=300)]
    words = in_words(told([branch("main")], operations))
    assert "what 1 branch cost" in words
    assert "checkpoint 80 ms, once, fork 300 ms, once" in words
