"""Which runs are part of what a branch is now, and which of other futures: over random trees."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.cell_lines import (
    SHOWN_SOURCE,
    cells_of_line,
    first_line,
    line_and_left,
)
from branchpoint_vmruntime.lineage import (
    BranchName,
    Cell,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    SessionId,
)
from branchpoint_vmruntime.lineage_view import RanCell

Kind = CheckpointKind
STEPS = ("run", "checkpoint", "fork", "rollback", "rollback for good", "switch")


def a_point(
    id: str,  # noqa: A002
    parent: str | None,
    done: Sequence[Cell] = (),
    *,
    kind: Kind = Kind.USER,
    cell: Cell | None = None,
) -> Checkpoint:
    return Checkpoint(
        id=CheckpointId(id),
        session=SessionId("s-1"),
        parent=None if parent is None else CheckpointId(parent),
        label=id,
        note="",
        kind=kind,
        branch=BranchName("main"),
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
        key="fake",
        cost=CheckpointCost(),
        moment=Moment(cell=cell, done=tuple(done)),
    )


def a_cell(id: str, count: int, source: str = "x = 1") -> Cell:  # noqa: A002
    return Cell(id=id, count=count, source=source)


def ran(*cells: Cell) -> tuple[RanCell, ...]:
    return tuple(RanCell(id=cell.id, count=cell.count) for cell in cells)


@dataclass(kw_only=True)
class Line:
    """A branch: where it stands, what was run since, and all that was run on the way to it."""

    head: str
    since: list[Cell] = field(default_factory=list[Cell])
    whole: list[Cell] = field(default_factory=list[Cell])


class Model:
    """A session that is driven as a kernel does it, beside what its lines ought to be."""

    def __init__(self) -> None:
        self.points = [a_point("base", None, kind=Kind.BASE)]
        self.lines = [Line(head="base")]
        self.current = 0
        self.wholes: dict[str, list[Cell]] = {"base": []}
        self.ever: list[Cell] = []

    @property
    def line(self) -> Line:
        """The branch that is current."""
        return self.lines[self.current]

    def do(self, step: str, choice: int) -> None:
        """One step; `choice` says of which cell, to which checkpoint or branch."""
        match step:
            case "run":
                cell = a_cell(f"cell-{choice % 4}", len(self.line.whole) + 1)
                self.line.since.append(cell)
                self.line.whole.append(cell)
                self.ever.append(cell)
            case "checkpoint":
                self.line.head = self.save(Kind.AUTO)
                self.line.since = []
            case "fork":
                self.line.head = self.save(Kind.FORK_POINT)
                self.line.since = []
                self.lines.append(Line(head=self.line.head, whole=list(self.line.whole)))
            case "switch":
                self.current = choice % len(self.lines)
            case _:
                goal = self.points[choice % len(self.points)].id
                if step == "rollback":
                    self.save(Kind.SAFETY)
                self.lines[self.current] = Line(head=goal, whole=list(self.wholes[goal]))

    def save(self, kind: Kind) -> str:
        """A checkpoint of the current branch."""
        name = f"point-{len(self.points)}"
        self.points.append(a_point(name, self.line.head, self.line.since, kind=kind))
        self.wholes[name] = list(self.line.whole)
        return name

    def told(self) -> tuple[tuple[RanCell, ...], tuple[RanCell, ...]]:
        """What is shown of it."""
        return line_and_left(self.points, self.line.head, self.line.since, self.ever)


def driven(steps: Sequence[tuple[str, int]]) -> Model:
    model = Model()
    for step, choice in steps:
        model.do(step, choice)
    return model


sessions = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30)), max_size=40).map(driven)


@given(sessions)
def test_the_line_is_what_was_run_on_the_way_to_the_present(model: Model) -> None:
    line, _ = model.told()
    assert set(line) == set(ran(*model.line.whole))


@given(sessions)
def test_every_run_is_either_on_the_line_or_left_and_told_once(model: Model) -> None:
    line, left = model.told()
    assert {*line, *left} == set(ran(*model.ever))
    assert len({*line, *left}) == len(line) + len(left)


@given(sessions, st.integers(0, 30))
def test_what_a_rollback_takes_back_is_left(model: Model, choice: int) -> None:
    before = ran(*model.line.whole)
    model.do("rollback", choice)
    line, left = model.told()
    assert set(before) - set(line) <= set(left)


@given(sessions)
def test_the_cells_of_a_line_are_told_in_the_order_they_were_run(model: Model) -> None:
    assert cells_of_line(model.points, model.line.head, model.line.since) == model.line.whole


def test_a_cell_that_was_run_again_on_the_new_line_is_not_left() -> None:
    one, two = a_cell("one", 1), a_cell("two", 2)
    points = [a_point("base", None), a_point("a", "base", [one]), a_point("b", "a", [two])]
    assert line_and_left(points, "a", [two]) == (ran(one, two), ())


def test_a_cell_without_a_place_in_a_document_is_left_out() -> None:
    points = [a_point("base", None), a_point("a", "base", [a_cell("", 1)])]
    assert line_and_left(points, "a", [a_cell("", 2)]) == ((), ())
    assert line_and_left(points, "base") == ((), ())


def test_an_id_that_no_document_has_is_left_out() -> None:
    assert line_and_left([a_point("base", None)], "base", [a_cell("x" * 5000, 1)]) == ((), ())


def test_a_magic_that_took_a_checkpoint_goes_with_it() -> None:
    magic = a_cell("magic", 1, "%checkpoint a")
    points = [a_point("base", None), a_point("a", "base", [a_cell("one", 1)], cell=magic)]
    assert line_and_left(points, "a") == (ran(a_cell("one", 1), magic), ())
    assert line_and_left(points, "base") == ((), ran(a_cell("one", 1), magic))


def test_a_magic_before_all_cells_of_code_has_the_number_that_is_shown_beside_it() -> None:
    points = [a_point("base", None), a_point("a", "base", cell=a_cell("magic", 0))]
    assert line_and_left(points, "a") == (ran(a_cell("magic", 1)), ())


@pytest.mark.parametrize("kind", [Kind.SAFETY, Kind.PARKED, Kind.PAUSED])
def test_a_magic_that_leaves_a_future_is_part_of_none(kind: Kind) -> None:
    magic = a_cell("magic", 1, "%rollback a")
    points = [a_point("base", None), a_point("a", "base", kind=kind, cell=magic)]
    assert line_and_left(points, "base") == ((), ())


def test_a_cell_that_took_a_checkpoint_on_its_way_is_told_once() -> None:
    cell = a_cell("mixed", 3, "%checkpoint a\nx = 1")
    asking = replace(cell, count=2)
    points = [a_point("base", None), a_point("a", "base", cell=asking)]
    assert cells_of_line(points, "a", [cell]) == [cell]
    assert cells_of_line(points, "a") == [asking]


def test_a_cell_that_was_run_twice_in_a_row_is_told_twice() -> None:
    first, second = a_cell("one", 1), a_cell("one", 2)
    points = [a_point("base", None), a_point("a", "base", [first], cell=first)]
    assert cells_of_line(points, "a", [second]) == [first, second]


def test_a_line_whose_beginning_is_gone_is_told_as_far_as_it_is_known() -> None:
    points = [a_point("b", "gone", [a_cell("two", 2)])]
    assert line_and_left(points, "b") == (ran(a_cell("two", 2)), ())


def test_of_a_source_the_first_line_that_says_something_is_shown() -> None:
    assert first_line("\n\n  # Fit  \nmodel.fit(x)") == "# Fit"
    assert first_line("") == ""
    assert first_line("x" * 500) == "x" * (SHOWN_SOURCE - 1) + "…"
