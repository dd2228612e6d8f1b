"""The picture of a lineage: it is written, says what there is, and is the same each time."""
# matplotlib 3.10 leaves what settings hold untyped.
# pyright: reportUnknownVariableType=false

import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import rc_context, rcParams
from matplotlib.image import imread
from matplotlib.text import Text
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, an_operation

from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointCost, CheckpointKind
from branchpoint_vmruntime.lineage.colours import COLOURS
from branchpoint_vmruntime.lineage.picture import (
    draw,
    resolution_dpi,
    save,
    size,
    summary,
    svg,
)

CHECKPOINTS = [
    a_base("base0000"),
    a_checkpoint("loaded", cost=CheckpointCost(paused_ms=46.4, memory_bytes=38_000_000)),
    a_checkpoint("before", "loaded", kind=CheckpointKind.SAFETY),
    a_checkpoint("auto-1", "loaded", kind=CheckpointKind.AUTO),
]
BRANCHES = [
    a_branch("main", "loaded"),
    a_branch("ridge", "loaded", state=BranchState.PARKED),
    a_branch("forest", "loaded", state=BranchState.LOST),
    a_branch("boost", "before", state=BranchState.DROPPED),
]


def words_of(current: str | None = None) -> list[str]:
    name = None if current is None else BranchName(current)
    figure = draw(CHECKPOINTS, BRANCHES, [an_operation()], current=name)
    return [text.get_text() for text in figure.findobj(Text)]


def test_every_label_and_branch_is_named_once() -> None:
    words = words_of()
    names = ["base", "loaded", "before", "auto-1", "main", "ridge", "forest", "boost"]
    assert [words.count(name) for name in names] == [1] * len(names)


def test_a_branch_is_drawn_in_a_colour_other_than_its_parents() -> None:
    forks = [a_branch(name, "loaded", parent="main") for name in "abcdefg"]
    figure = draw(CHECKPOINTS, [a_branch("main", "loaded"), *forks])
    colours = {text.get_text(): text.get_color() for text in figure.findobj(Text)}
    assert colours["main"] == COLOURS[0]
    assert colours["main"] not in {colours[name] for name in "abcdefg"}


def test_the_cost_stands_beside_each_checkpoint() -> None:
    words = words_of()
    assert "46 ms" in words
    assert "38 MB" in words


def test_each_state_is_told_in_words() -> None:
    assert {"live", "parked", "lost", "dropped"} <= set(words_of())


def test_the_branch_of_this_notebook_is_pointed_out() -> None:
    assert "live, this notebook" in words_of("main")
    assert "live, this notebook" not in words_of()


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_the_same_lineage_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    pictures: list[bytes] = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}{ending}"
        save(draw(CHECKPOINTS, BRANCHES, current=BranchName("main")), path)
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]


# Whoever writes papers has the like in a matplotlibrc, and there may be no LaTeX on this computer.
SET_BY_ITS_USER = {
    "text.usetex": True,
    "font.family": "monospace",
    "savefig.transparent": True,
    "savefig.facecolor": "black",
    "savefig.bbox": "tight",
    "svg.fonttype": "none",
    "lines.linewidth": 9,
}


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_what_its_user_has_set_for_other_plots_changes_nothing(tmp_path: Path, ending: str) -> None:
    plain, other = (tmp_path / f"{name}{ending}" for name in ("plain", "other"))
    save(draw(CHECKPOINTS, BRANCHES), plain)
    with rc_context(SET_BY_ITS_USER):  # pyright: ignore[reportArgumentType]
        before = dict(rcParams)
        save(draw(CHECKPOINTS, BRANCHES), other)
        assert dict(rcParams) == before
    assert other.read_bytes() == plain.read_bytes()


def test_a_file_of_settings_that_is_read_at_the_start_changes_nothing(tmp_path: Path) -> None:
    lines = [f"{name}: {value}\n" for name, value in SET_BY_ITS_USER.items()]
    (tmp_path / "matplotlibrc").write_text("".join(lines))
    code = (
        "import sys; from branchpoint_vmruntime.lineage.picture import draw, svg;"
        "from tests.unit.lineage.test_picture import BRANCHES, CHECKPOINTS;"
        "sys.stdout.buffer.write(svg(draw(CHECKPOINTS, BRANCHES)))"
    )
    env = {**os.environ, "MATPLOTLIBRC": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    drawn = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert (drawn.returncode, drawn.stderr) == (0, b"")
    assert drawn.stdout == svg(draw(CHECKPOINTS, BRANCHES))


def test_the_picture_is_not_blank(tmp_path: Path) -> None:
    save(draw(CHECKPOINTS, BRANCHES), tmp_path / "lineage.png")
    assert imread(tmp_path / "lineage.png").min() < 0.2


def test_a_lineage_of_nothing_can_be_drawn(tmp_path: Path) -> None:
    save(draw([], []), tmp_path / "lineage.png")
    assert (tmp_path / "lineage.png").stat().st_size > 0


def test_a_label_that_looks_like_a_formula_is_written_as_it_is(tmp_path: Path) -> None:
    checkpoints = [a_base("base0000"), a_checkpoint("odd", label="$x^{$漢字")]
    save(draw(checkpoints, []), tmp_path / "lineage.png")
    assert (tmp_path / "lineage.png").stat().st_size > 0


def test_a_very_long_picture_stays_within_what_can_be_drawn() -> None:
    assert resolution_dpi(10) == 150
    assert resolution_dpi(2000) * 2000 < 1 << 16


def test_the_summary_counts_and_takes_the_median() -> None:
    operations = [an_operation(), an_operation("fork"), an_operation()]
    assert summary(operations).startswith("2 \N{MULTIPLICATION SIGN} checkpoint 120 ms")
    assert summary(operations).endswith("fork 120 ms")


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0.0 MB"), (900_000, "0.9 MB"), (38_000_000, "38 MB"), (2_000_000_000, "2.0 GB")],
)
def test_sizes_are_given_in_a_unit_that_suits(count: int, words: str) -> None:
    assert size(count) == words
