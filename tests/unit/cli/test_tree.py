"""A lineage drawn with characters."""

import json
from dataclasses import replace

import pytest
from tests.unit.cli.staffed import ID, staffed
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session

from branchpoint_cli.__main__ import main
from branchpoint_cli.drawing import Known, draw
from branchpoint_vmruntime.errors import MachineEndedError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage.sizes import Sizes
from branchpoint_vmruntime.viewing import view_on_record

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
NOTHING = Known(current=None, pins=frozenset(), memory={}, disk={})


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
        current="ridge",
        pins=frozenset({CheckpointId("c1c1c1c1")}),
        memory={"ridge": "9 MB own"},
        disk={},
    )
    drawn = draw(CHECKPOINTS, BRANCHES, known)
    (ridge,) = [line for line in drawn if "ridge" in line]
    assert "▶ ridge" in ridge
    assert ridge.endswith("branch, live · current · 9 MB own")
    assert [line for line in drawn if "pinned" in line] == [line for line in drawn if "loa" in line]


def test_what_a_checkpoint_has_for_itself_shares_and_would_take_alone_are_three_figures() -> None:
    disk = {CheckpointId("c1c1c1c1"): Sizes(own=29_000_000, shared=262_000_000, apparent=10**9)}
    drawn = draw(CHECKPOINTS, BRANCHES, replace(NOTHING, disk=disk))
    (loaded,) = [line for line in drawn if "loaded" in line]
    assert "29 MB own, 262 MB shared, 1.0 GB apparent" in loaded


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


def test_a_branch_whose_machine_has_just_ended_is_drawn_as_lost(
    own_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with staffed(own_home) as staff:
        (machine,) = staff.workshop.living()
        machine.failure = MachineEndedError("killed")
        assert main(["tree"]) == 0
        drawn = capsys.readouterr().out
    assert "branch, lost · current" in drawn


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
    assert [sorted(one["disk"]) for one in found["checkpoints"]] == [
        ["apparent", "own", "shared"],
        ["apparent", "own", "shared"],
    ]
    assert found["machines"] == []


def has_lent(own_home: Home) -> SessionRecord:
    """The session's branch is lent; whom to."""
    with staffed(own_home):
        main(["checkpoint", "loaded"])
    with Journal.open(own_home.database) as journal:
        (main_branch,) = journal.branches(SessionId(ID))
        borrower = a_session("borrower", "/notes/demo-main.ipynb")
        lent = replace(main_branch, state=BranchState.LENT, lent_to=borrower.id)
        journal.lend(lent, replace(borrower, start=lent.head))
    return borrower


def test_a_lent_branch_is_drawn_with_the_notebook_that_has_it(
    own_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    borrower = has_lent(own_home)
    (own_home.layers / borrower.id).mkdir(parents=True)
    capsys.readouterr()
    with locked(own_home.layers / borrower.id, wait=False):
        assert main(["tree", "notebook"]) == 0
    drawn = capsys.readouterr().out
    assert "branch, lent · current · open as 'demo-main.ipynb'" in drawn


def test_one_whose_notebook_has_ended_is_drawn_as_it_will_be_given_back(
    own_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    borrower = has_lent(own_home)
    with Journal.open(own_home.database) as journal:
        (lent,) = journal.lent()
        there = a_checkpoint("c9", lent.head, session=borrower.id, label="there")
        journal.add_checkpoint(there, advance=None)
        journal.put_branch(a_branch("main", "c9", session=borrower.id, state=BranchState.PAUSED))
        journal.put_session(replace(borrower, start=lent.head, current=BranchName("main")))
    capsys.readouterr()
    assert main(["tree", "notebook"]) == 0
    drawn = capsys.readouterr().out.splitlines()
    (place,) = [number for number, line in enumerate(drawn) if "there" in line]
    assert "branch, paused · current" in drawn[place + 1]
    assert main(["ls", "--json"]) == 0
    lender = json.loads(capsys.readouterr().out)["sessions"][0]
    assert [it["state"] for it in lender["branches"]] == ["paused"]
    shown = view_on_record(own_home, ID).branches[0]
    assert (shown.facts.state, shown.facts.head_label) == (BranchState.PAUSED, "there")
    # Looking changes nothing.
    with Journal.read(own_home.database) as journal:
        assert journal.lent() == [lent]
