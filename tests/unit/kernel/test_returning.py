"""What a new kernel says of what earlier ones saved, and when it says nothing."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from branchpoint_kernel.returning import Returning, way_back
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.session import Session

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
RECORD = SessionRecord(id=SessionId("s"), key="a.ipynb", created_at=NOW)


class LeftBranch:
    """A branch on record alone."""

    def __init__(self, name: str, head: str, state: BranchState) -> None:
        self.record = BranchRecord(
            session=RECORD.id,
            name=BranchName(name),
            index=0,
            parent=None,
            origin=CheckpointId(head),
            head=CheckpointId(head),
            state=state,
            created_at=NOW,
        )
        self.name, self.state = self.record.name, state


class LeftSession:
    """A session as a new kernel finds it."""

    record = RECORD
    loan: Loan | None = None

    @property
    def image(self) -> "LeftSession":
        """Itself: only where fresh machines start is used of it."""
        return self

    @property
    def chain(self) -> tuple[Checkpoint, ...]:
        """What was baked: nothing."""
        return ()

    @property
    def refused(self) -> str:
        """Why a fresh machine does not start there: it does."""
        return ""

    @property
    def failed(self) -> str:
        """Why this one has not: it has."""
        return ""

    def start(self) -> "LeftSession":
        """Itself: nothing was baked."""
        return self

    def __init__(self, branches: list[LeftBranch], points: list[Checkpoint]) -> None:
        self._branches = [LeftBranch("main", "base", BranchState.LIVE), *branches]
        self._points = [point("base", CheckpointKind.BASE, 0), *points]

    def branches(self) -> list[LeftBranch]:
        """All of them."""
        return self._branches

    def checkpoints(self) -> list[Checkpoint]:
        """All of them."""
        return self._points


def point(label: str, kind: CheckpointKind, minute: int) -> Checkpoint:
    """A checkpoint whose id is its label."""
    return Checkpoint(
        id=CheckpointId(label),
        session=RECORD.id,
        parent=None,
        label=label,
        note="",
        kind=kind,
        branch=BranchName("main"),
        created_at=NOW + timedelta(minutes=minute),
        key="key",
        cost=CheckpointCost(paused_ms=1.0, memory_bytes=1, shared_bytes=1),
    )


def left(branches: list[LeftBranch], points: list[Checkpoint]) -> Session:
    """The same as what is asked for it."""
    return cast("Session", LeftSession(branches, points))


LOADED = point("loaded", CheckpointKind.USER, 1)
AUTO = point("auto-1", CheckpointKind.AUTO, 2)
TWO = [
    LeftBranch("main~1", "loaded", BranchState.LOST),
    LeftBranch("ridge~1", "auto-1", BranchState.PAUSED),
]


def test_the_branch_saved_last_and_the_newest_named_checkpoint_are_offered() -> None:
    (line,) = way_back(left(TWO, [LOADED, AUTO]))
    here = AUTO.created_at.astimezone()
    assert line.facts[0] == f"%switch ridge~1 carries on from auto-1 ({here:%d %b %H:%M})"
    assert line.facts[1] == "%rollback loaded goes back to that checkpoint"


def test_what_was_saved_last_is_offered_although_the_clock_was_set_back() -> None:
    early = point("auto-1", CheckpointKind.AUTO, -9000)
    (line,) = way_back(left(TWO, [LOADED, early]))
    assert line.facts[0].startswith("%switch ridge~1 carries on from auto-1 ")


def test_nothing_is_said_where_nothing_was_saved() -> None:
    dropped = LeftBranch("main~1", "base", BranchState.DROPPED)
    assert way_back(left([dropped], [])) == []


def test_it_is_said_once(tmp_path: Path) -> None:
    returning = Returning(left(TWO, [LOADED, AUTO]), tmp_path, RECORD.key)
    assert "was here before" in returning.say()[0]["text/plain"]
    assert returning.say() == []


@pytest.mark.parametrize(("later_s", "count"), [(5, 0), (3600, 1), (-3600, 1)])
def test_nothing_is_said_after_a_restart_by_the_user_but_long_after_it_is(
    tmp_path: Path, later_s: int, count: int
) -> None:
    session = left(TWO, [LOADED, AUTO])
    Returning(session, tmp_path / "s", RECORD.key).note_restart()
    (mark,) = (tmp_path / "s").iterdir()
    then = mark.stat().st_mtime - later_s
    os.utime(mark, (then, then))
    assert len(Returning(session, tmp_path / "s", RECORD.key).say()) == count
    assert len(Returning(session, tmp_path / "s", RECORD.key).say()) == 1


def test_a_later_kernel_knows_that_the_lineage_was_shown(tmp_path: Path) -> None:
    session = left([], [])
    returning = Returning(session, tmp_path / "s", RECORD.key)
    assert not returning.lineage_was_shown
    returning.note_lineage_shown()
    assert Returning(session, tmp_path / "s", RECORD.key).lineage_was_shown


def test_where_that_cannot_be_kept_nothing_fails(tmp_path: Path) -> None:
    returning = Returning(left([], []), tmp_path / "s", RECORD.key)
    (tmp_path / "s").write_text("no folder")
    returning.note_lineage_shown()
    assert not returning.lineage_was_shown


def test_a_kernel_beside_another_says_that_its_session_is_its_own(tmp_path: Path) -> None:
    beside = LeftSession([], [])
    beside.record = replace(RECORD, key="a.ipynb (2)")
    (said,) = Returning(cast("Session", beside), tmp_path, RECORD.key).say()
    assert "another kernel has this notebook's session open" in said["text/plain"]


LOAN = Loan(branch=BranchName("ridge"), index=1, lender="/notes/demo.ipynb", lent=True)


@pytest.mark.parametrize(
    ("loan", "words"),
    [
        (LOAN, "this is ridge of demo.ipynb   as it was opened · shut this kernel down"),
        (replace(LOAN, resumes=True), "this is ridge of demo.ipynb   from where it has come to"),
        (replace(LOAN, lent=False, parted=True), "demo.ipynb has gone on with ridge by itself"),
        (
            replace(LOAN, lent=False, parted=True, unanswered=True),
            "demo.ipynb was too busy to lend ridge again",
        ),
    ],
)
def test_a_notebook_that_continues_a_branch_says_whose_and_offers_no_way_back(
    tmp_path: Path, loan: Loan, words: str
) -> None:
    session = LeftSession(TWO, [LOADED, AUTO])
    session.loan = loan
    (said,) = Returning(cast("Session", session), tmp_path, RECORD.key).say()
    assert words in said["text/plain"]
    assert "was here before" not in said["text/plain"]


def test_once_it_goes_its_own_way_nothing_more_is_said(tmp_path: Path) -> None:
    session = LeftSession(TWO, [LOADED, AUTO])
    session.loan = replace(LOAN, lent=False)
    assert Returning(cast("Session", session), tmp_path, RECORD.key).say() == []
