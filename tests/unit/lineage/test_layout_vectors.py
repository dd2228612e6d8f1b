"""The live tree places and colours what it draws as the picture does: by the same examples.

The other half is layout.test.ts and colours.test.ts in nbext/tests/lineage, on the same files.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint

from branchpoint_vmruntime.lineage import BranchRecord, BranchState
from branchpoint_vmruntime.lineage.colours import COLOURS, colour_numbers
from branchpoint_vmruntime.lineage.layout import Placed, place

NBEXT = Path(__file__).parents[3] / "nbext"
VECTORS = NBEXT / "tests" / "lineage"
COLOURS_OF_THE_TREE = re.compile(r"LIGHT: Palette = \{[^}]*branches: \[([^\]]+)\]")
EXAMPLES: list[dict[str, Any]] = json.loads((VECTORS / "layout_vectors.json").read_text())
COLOUR_EXAMPLES: list[dict[str, Any]] = json.loads((VECTORS / "colour_vectors.json").read_text())


def _row(placed: Placed) -> list[Any]:
    subject = placed.subject
    key = f"b:{subject.name}" if isinstance(subject, BranchRecord) else f"c:{subject.id}"
    return [key, placed.lane, placed.parent_row]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_layout_is_that_of_the_shared_examples(example: dict[str, Any]) -> None:
    checkpoints = [
        a_base(name) if parent is None else a_checkpoint(name, parent, branch=branch)
        for name, parent, branch in example["checkpoints"]
    ]
    branches = [
        a_branch(name, head, state=BranchState(state)) for name, head, state in example["branches"]
    ]
    assert [_row(placed) for placed in place(checkpoints, branches)] == example["rows"]


@pytest.mark.parametrize("example", COLOUR_EXAMPLES)
def test_colours_go_round_as_in_the_shared_examples(example: dict[str, Any]) -> None:
    branches = [a_branch(name, parent=parent) for name, parent in example["branches"]]
    assert list(colour_numbers(branches).values()) == example["numbers"]


def test_branches_have_the_colours_that_they_have_in_the_picture() -> None:
    found = COLOURS_OF_THE_TREE.search((NBEXT / "src" / "lineage" / "colours.ts").read_text())
    assert found is not None
    assert tuple(re.findall("#[0-9a-f]{6}", found[1])) == COLOURS
