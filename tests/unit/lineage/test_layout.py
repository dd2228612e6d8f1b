"""The layout of the picture: everything once, nothing on top of another, time runs down."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint

from branchpoint_vmruntime.lineage import BranchRecord, BranchState, Checkpoint
from branchpoint_vmruntime.lineage.layout import Placed, place


def named(placed: tuple[Placed, ...]) -> list[tuple[str, int]]:
    return [(_name(each.subject), each.lane) for each in placed]


def _name(subject: Checkpoint | BranchRecord) -> str:
    return subject.name if isinstance(subject, BranchRecord) else subject.id


@st.composite
def lineages(draw: st.DrawFn) -> tuple[list[Checkpoint], list[BranchRecord]]:
    """Any tree of up to 40 checkpoints, with up to 8 branches standing anywhere on it."""
    names = [f"branch-{number}" for number in range(draw(st.integers(1, 8)))]
    checkpoints = [a_base("0")]
    for number in range(1, draw(st.integers(1, 40))):
        parent = draw(st.integers(0, number - 1))
        branch = draw(st.sampled_from(names))
        checkpoints.append(a_checkpoint(str(number), str(parent), branch=branch))
    heads, states = st.sampled_from(checkpoints), st.sampled_from(BranchState)
    branches = [a_branch(name, draw(heads).id, state=draw(states)) for name in names]
    return checkpoints, branches


@given(lineages())
def test_every_checkpoint_and_every_tip_is_placed_once(
    lineage: tuple[list[Checkpoint], list[BranchRecord]],
) -> None:
    checkpoints, branches = lineage
    subjects = [each.subject for each in place(checkpoints, branches)]
    assert len(subjects) == len(checkpoints) + len(branches)
    assert all(subjects.count(each) == 1 for each in [*checkpoints, *branches])


@given(lineages())
def test_every_one_has_a_row_of_its_own(
    lineage: tuple[list[Checkpoint], list[BranchRecord]],
) -> None:
    placed = place(*lineage)
    assert [each.row for each in placed] == list(range(len(placed)))


@given(lineages())
def test_edges_run_from_the_parent_down_and_never_to_the_left(
    lineage: tuple[list[Checkpoint], list[BranchRecord]],
) -> None:
    placed = place(*lineage)
    for each in placed:
        if each.parent_row is None:
            assert isinstance(each.subject, Checkpoint)
            assert each.subject.parent is None
            continue
        parent = placed[each.parent_row]
        assert isinstance(parent.subject, Checkpoint)
        over = each.subject.head if isinstance(each.subject, BranchRecord) else each.subject.parent
        assert parent.subject.id == over
        assert parent.row < each.row
        assert parent.lane <= each.lane <= parent.lane + 1


@given(lineages())
def test_no_edge_runs_through_a_node_that_is_not_its_own(
    lineage: tuple[list[Checkpoint], list[BranchRecord]],
) -> None:
    placed = place(*lineage)
    for each in placed:
        if each.parent_row is not None:
            parent = placed[each.parent_row]
            between = placed[parent.row + 1 : each.row]
            assert all(other.lane > parent.lane for other in between)


@given(lineages())
def test_of_what_follows_a_checkpoint_exactly_one_goes_straight_on(
    lineage: tuple[list[Checkpoint], list[BranchRecord]],
) -> None:
    placed = place(*lineage)
    lanes: dict[int, list[int]] = {}
    for each in placed:
        if each.parent_row is not None:
            lanes.setdefault(each.parent_row, []).append(each.lane - placed[each.parent_row].lane)
    assert all(steps.count(0) == 1 for steps in lanes.values())


def test_forks_of_one_checkpoint_leave_the_line_of_their_parent() -> None:
    branches = [a_branch(name, "loaded") for name in ("main", "ridge", "boost")]
    placed = place([a_base("base"), a_checkpoint("loaded", "base")], branches)
    assert named(placed) == [("base", 0), ("loaded", 0), ("ridge", 1), ("boost", 1), ("main", 0)]


def test_a_branch_goes_straight_to_its_present_and_its_abandoned_future_aside() -> None:
    line = [
        a_base("base"),
        a_checkpoint("loaded", "base"),
        a_checkpoint("left-behind", "loaded"),
        a_checkpoint("went-on", "loaded"),
    ]
    placed = place(line, [a_branch("main", "went-on")])
    assert named(placed)[1:] == [("loaded", 0), ("left-behind", 1), ("went-on", 0), ("main", 0)]


def test_a_branch_whose_head_was_removed_is_left_out() -> None:
    assert named(place([a_base("base")], [a_branch("main", "gone")])) == [("base", 0)]


def test_a_thousand_checkpoints_in_a_row_are_placed() -> None:
    line = [a_base("0"), *(a_checkpoint(f"{n + 1}", f"{n}") for n in range(1000))]
    placed = place(line, [])
    assert all(below.parent_row == above.row for above, below in pairwise(placed))
