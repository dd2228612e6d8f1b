"""A lineage drawn with characters."""

import json

import pytest
from tests.unit.cli.staffed import ID, staffed
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint

from branchpoint_cli.__main__ import main
from branchpoint_cli.drawing import Known, draw
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, CheckpointId, CheckpointKind

CHECKPOINTS = [
    a_base(),
    a_checkpoint("c1c1c1c1", label="loaded"),
    a_checkpoint("c2c2c2c2", "c1c1c1c1", label="fit", branch="ridge", minute=2),
    a_checkpoint("c3c3c3c3", "c2c2c2c2", label="tuned", branch="ridge", minute=3),
    a_checkpoint("c4c4c4c4", "c1c1c1c1", label="", minute=4, kind=CheckpointKind.SAFETY),
]
BRANCHES = [
    a_branch("main", "c1c1c1c1"),
    a_branch("ridge", "c3c3c3c3"),
    a_branch("forest", "c2c2c2c2", state=BranchState.PAUSED),
    a_branch("gone", "c2c2c2c2", state=BranchState.DROPPED),
]
NOTHING = Known(current=None, pins=frozenset(), memory={})


def test_a_line_goes_straight_down_and_what_leaves_it_comes_first() -> None:
    drawn = [line[:14].rstrip() for line in draw(CHECKPOINTS, BRANCHES, NOTHING)]
    assert drawn == [
        "● base",
        "● loaded",
        "├─● fit",
        "│ ├─○ forest",
        "│ ● tuned",
        "│ ○ ridge",
        "├─● c4c4c4c4",
        "○ main",
    ]


def test_the_current_branch_the_pins_and_the_memory_are_told() -> None:
    known = Known(
        current="ridge", pins=frozenset({CheckpointId("c1c1c1c1")}), memory={"ridge": "9 MB own"}
    )
    drawn = draw(CHECKPOINTS, BRANCHES, known)
    (ridge,) = [line for line in drawn if "ridge" in line]
    assert "▶ ridge" in ridge
    assert ridge.endswith("branch, live · current · 9 MB own")
    assert [line for line in drawn if "pinned" in line] == [line for line in drawn if "loa" in line]


def test_a_lineage_of_nothing_is_drawn_as_nothing() -> None:
    assert draw([], [], NOTHING) == []


def test_a_thousand_checkpoints_deep_it_is_still_one_lane() -> None:
    line = [a_base()]
    line += [
        a_checkpoint(f"c{number:07}", f"c{number - 1:07}" if number else "base0000")
        for number in range(1000)
    ]
    drawn = draw(line, [a_branch("main", line[-1].id)], NOTHING)
    assert len(drawn) == 1002
    assert {row[0] for row in drawn} == {"●", "○"}


def test_an_open_session_is_drawn_with_the_memory_of_its_machines(
    own_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with staffed(own_home):
        main(["checkpoint", "loaded"])
        capsys.readouterr()
        assert main(["tree"]) == 0
        head, base, loaded, tip = capsys.readouterr().out.splitlines()
    assert head == f"{ID} notebook"
    assert base.startswith("● base")
    assert loaded.startswith("● loaded")
    assert tip.startswith("▶ main")
    assert tip.endswith("branch, live · current · 9.4 MB own, 432 MB shared")


def test_a_closed_session_is_drawn_from_the_books(
    own_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with staffed(own_home):
        main(["checkpoint", "loaded", "--pin"])
        capsys.readouterr()
    assert main(["tree", "notebook", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["session"]["id"] == ID
    assert [branch["state"] for branch in found["branches"]] == ["lost"]
    assert [(one["label"], one["pinned"]) for one in found["checkpoints"]] == [
        ("base", False),
        ("loaded", True),
    ]
    assert found["machines"] == []
