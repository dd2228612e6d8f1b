"""The tree of checkpoints: ancestors, descendants, and no endless walk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint

from branchpoint_vmruntime.errors import DamagedError, UnknownNameError
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.tree import Tree

FAMILY = [
    a_base("base"),
    a_checkpoint("loaded", "base"),
    a_checkpoint("ridge", "loaded"),
    a_checkpoint("boost", "loaded"),
    a_checkpoint("boost-2", "boost"),
]


def ids(checkpoints: tuple[Checkpoint, ...]) -> list[str]:
    return [checkpoint.id for checkpoint in checkpoints]


def test_a_path_runs_from_the_checkpoint_to_the_base() -> None:
    assert ids(Tree(FAMILY).path(CheckpointId("boost-2"))) == ["boost-2", "boost", "loaded", "base"]


def test_children_come_oldest_first() -> None:
    assert ids(Tree(FAMILY).children(CheckpointId("loaded"))) == ["ridge", "boost"]


def test_descendants_come_nearest_first() -> None:
    below = Tree(FAMILY).descendants(CheckpointId("base"))
    assert ids(below) == ["loaded", "ridge", "boost", "boost-2"]


def test_the_common_ancestor_is_the_nearest() -> None:
    tree = Tree(FAMILY)
    common = tree.common(CheckpointId("ridge"), CheckpointId("boost-2"))
    assert common is not None
    assert common.id == "loaded"


def test_of_two_on_one_line_the_older_is_the_common_ancestor() -> None:
    common = Tree(FAMILY).common(CheckpointId("boost-2"), CheckpointId("boost"))
    assert common is not None
    assert common.id == "boost"


def test_under_different_bases_nothing_is_common() -> None:
    tree = Tree([*FAMILY, a_base("base-2"), a_checkpoint("alone", "base-2")])
    assert tree.common(CheckpointId("alone"), CheckpointId("ridge")) is None
    assert ids(tree.roots()) == ["base", "base-2"]


def test_branches_are_found_where_they_stand() -> None:
    branches = [a_branch("main", "loaded"), a_branch("boost", "boost"), a_branch("b", "loaded")]
    standing = Tree(FAMILY, branches).standing(CheckpointId("loaded"))
    assert [branch.name for branch in standing] == ["main", "b"]


def test_a_stranger_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'nobody'"):
        Tree(FAMILY).path(CheckpointId("nobody"))


def test_a_circle_of_parents_is_an_error_and_not_a_hang() -> None:
    tree = Tree([a_checkpoint("one", "two"), a_checkpoint("two", "one")])
    with pytest.raises(DamagedError, match="circle"):
        tree.path(CheckpointId("one"))
    assert set(ids(tree.descendants(CheckpointId("one")))) == {"one", "two"}


def test_a_missing_parent_is_an_error() -> None:
    with pytest.raises(DamagedError, match="gone"):
        Tree([a_checkpoint("one", "gone")]).path(CheckpointId("one"))


@st.composite
def families(draw: st.DrawFn) -> list[Checkpoint]:
    """A base and up to 30 checkpoints, each a child of an earlier one."""
    family = [a_base("0")]
    for number in range(1, draw(st.integers(1, 30))):
        parent = draw(st.integers(0, number - 1))
        family.append(a_checkpoint(str(number), str(parent)))
    return family


@given(families())
def test_ancestors_and_descendants_say_the_same(family: list[Checkpoint]) -> None:
    tree = Tree(family)
    above = {(one.id, each.id) for one in family for each in tree.path(one.id)[1:]}
    below = {(each.id, one.id) for one in family for each in tree.descendants(one.id)}
    assert above == below


@given(families())
def test_a_child_is_one_deeper_than_its_parent(family: list[Checkpoint]) -> None:
    tree = Tree(family)
    for one in family:
        assert all(
            tree.depth(child.id) == tree.depth(one.id) + 1 for child in tree.children(one.id)
        )
        assert tree.path(one.id)[-1].id == "0"


@given(families(), st.data())
def test_the_common_ancestor_does_not_depend_on_the_order(
    family: list[Checkpoint], data: st.DataObject
) -> None:
    one, other = (data.draw(st.sampled_from(family)).id for _ in range(2))
    assert Tree(family).common(one, other) == Tree(family).common(other, one)
