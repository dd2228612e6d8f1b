"""The live tree places what it draws as the picture does: both are held to the same examples.

The other half is nbext/tests/lineage/layout.test.ts, on the same file.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint

from branchpoint_vmruntime.lineage import BranchRecord, BranchState, picture
from branchpoint_vmruntime.lineage.layout import Placed, place

NBEXT = Path(__file__).parents[3] / "nbext"
FILE = NBEXT / "tests" / "lineage" / "layout_vectors.json"
COLOURS = re.compile(r"(?:_COLOURS = \(|branches: \[)((?:[\s,]*['\"]#[0-9a-f]{6}['\"])+)")
EXAMPLES: list[dict[str, Any]] = json.loads(FILE.read_text())


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


def _colours(source: Path) -> list[str]:
    found = COLOURS.search(source.read_text())
    assert found is not None, f"{source} names no colours of branches"
    return re.findall("#[0-9a-f]{6}", found[1])


def test_branches_have_the_colours_that_they_have_in_the_picture() -> None:
    live = _colours(NBEXT / "src" / "lineage" / "colours.ts")
    assert live == _colours(Path(picture.__file__))
