"""Where an undo goes back to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineage.facts import a_base, a_checkpoint

from branchpoint_kernel.undo import cells_since, choose
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import Cell, Checkpoint, CheckpointKind, Moment, OpenRequest


def a_cell(count: int, source: str = "") -> Cell:
    return Cell(id="", count=count, source=source or f"x = {count}")


def a_point(number: int, moment: Moment, kind: CheckpointKind = CheckpointKind.USER) -> Checkpoint:
    return replace(a_checkpoint(f"point{number}", kind=kind), moment=moment)


@dataclass
class Story:
    """A branch's life, told step by step."""

    path: list[Checkpoint]
    done: list[Cell]
    cells: int = 0

    @classmethod
    def of(cls, steps: Sequence[str]) -> "Story":
        story = cls([a_base()], [])
        for step in steps:
            if step == "cell":
                story.cells += 1
                story.done.append(a_cell(story.cells))
            else:
                story.save(inside=step == "inside")
        return story

    def save(self, *, inside: bool) -> None:
        """Take a checkpoint between cells, or inside the next cell, which ends only later."""
        asking = a_cell(self.cells + 1)
        waiting = (OpenRequest(id="m", cell=asking),) if inside else ()
        moment = Moment(cell=asking if inside else None, done=tuple(self.done), open=waiting)
        self.path.insert(0, a_point(len(self.path), moment))
        self.done = []


STORIES = st.lists(st.sampled_from(["cell", "cell", "between", "inside"]), max_size=30)


@given(STORIES, st.integers(1, 12))
def test_the_newest_checkpoint_between_cells_that_is_far_enough_back(
    steps: list[str], count: int
) -> None:
    story = Story.of(steps)
    cells_before = [
        (place, steps[:place].count("cell")) for place, it in enumerate(steps) if it == "between"
    ]
    far_enough = [it for it in cells_before if it[1] <= story.cells - count]
    try:
        undoing = choose(story.path, story.done, count)
    except UsageError:
        assert not far_enough
        return
    place, before = far_enough[-1]
    number = sum(it != "cell" for it in steps[: place + 1])
    assert undoing.target.id == f"point{number}"
    assert [cell.count for cell in undoing.cells] == list(range(before + 1, story.cells + 1))


@given(STORIES)
def test_the_cells_since_the_root_are_all(steps: list[str]) -> None:
    story = Story.of(steps)
    since = cells_since(story.path, story.done, story.path[-1])
    assert [cell.count for cell in since] == list(range(1, story.cells + 1))


def test_without_a_checkpoint_the_refusal_says_how_to_get_one() -> None:
    with pytest.raises(UsageError, match="no checkpoint that is 2 cells back") as refused:
        choose([a_base()], [a_cell(1), a_cell(2)], 2)
    assert "%autocheckpoint on" in refused.value.hint


@pytest.mark.parametrize(
    ("source", "goes_to"),
    [("x = 1\n%checkpoint a\ny = 2", "point1"), ("%checkpoint a\ny", "point2")],
)
def test_a_checkpoint_that_a_cell_took_in_its_middle_is_not_before_it(
    source: str, goes_to: str
) -> None:
    mixed = a_cell(2, source)
    path = [
        a_point(2, Moment(cell=mixed, done=(a_cell(1),))),
        a_point(1, Moment(cell=None)),
        a_base(),
    ]
    assert choose(path, [mixed], 1).target.id == goes_to


def test_only_the_first_checkpoint_of_a_cell_is_before_it() -> None:
    mixed = a_cell(1, "%checkpoint a\ny = 2\n%checkpoint b")
    path = [a_point(2, Moment(cell=mixed)), a_point(1, Moment(cell=mixed)), a_base()]
    assert choose(path, [mixed], 1).target.id == "point1"


def test_a_cell_that_is_run_twice_is_undone_once() -> None:
    again = a_cell(1, "x += 1")
    path = [a_point(1, Moment(cell=again, done=(again,)), CheckpointKind.AUTO), a_base()]
    assert choose(path, [replace(again, count=2)], 1).target.id == "point1"
