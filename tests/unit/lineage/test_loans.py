"""Sessions that stand on each other's checkpoints: put on record, told, and never pulled away."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lineage.facts import DAY, a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.errors import NameTakenError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage.retention import StoreBudgets, plan

LENDER, BORROWER = a_session("lender", "demo.ipynb"), a_session("borrower", "demo-ridge.ipynb")
RIDGE = replace(
    a_branch("ridge", "c1", session="lender", state=BranchState.LENT), lent_to=BORROWER.id
)


@pytest.fixture
def journal(tmp_path: Path) -> Generator[Journal]:
    """A lender with a base and one checkpoint."""
    with Journal.open(tmp_path / "lineage.db") as opened:
        opened.add_session(LENDER)
        opened.add_checkpoint(a_base(), advance=None)
        opened.add_checkpoint(a_checkpoint("c1", session="lender"), advance=None)
        yield opened


def start_at(head: str, session: SessionRecord = BORROWER) -> SessionRecord:
    """A session whose fresh machines start there."""
    return replace(session, start=CheckpointId(head))


def test_a_lent_branch_and_the_session_that_has_it_are_on_record_together(
    journal: Journal,
) -> None:
    journal.lend(RIDGE, start_at("c1"))
    assert journal.session(BORROWER.id) == start_at("c1")
    assert journal.loan_of(BORROWER.id) == RIDGE
    assert journal.lent() == [RIDGE]


def test_what_a_session_starts_from_is_among_its_checkpoints(journal: Journal) -> None:
    journal.lend(RIDGE, start_at("c1"))
    assert [it.id for it in journal.checkpoints(BORROWER.id)] == ["base0000", "c1"]


def test_neither_is_if_the_key_is_another_sessions(journal: Journal) -> None:
    journal.add_session(a_session("else", BORROWER.key))
    with pytest.raises(NameTakenError, match=r"already a session 'demo-ridge\.ipynb'"):
        journal.lend(RIDGE, start_at("c1"))
    assert journal.session(BORROWER.id) is None
    assert journal.branches(LENDER.id) == []


def test_a_session_that_had_a_branch_before_starts_where_it_is_lent_again(
    journal: Journal,
) -> None:
    journal.lend(RIDGE, start_at("c1"))
    journal.add_checkpoint(a_checkpoint("c2", "c1", session="borrower"), advance=None)
    journal.lend(replace(RIDGE, head=CheckpointId("c2")), start_at("c2"))
    assert journal.session(BORROWER.id) == start_at("c2")


def test_a_branch_that_was_given_back_is_no_loan(journal: Journal) -> None:
    journal.lend(RIDGE, start_at("c1"))
    journal.put_branch(replace(RIDGE, state=BranchState.PAUSED, lent_to=None))
    assert journal.loan_of(BORROWER.id) is None


def given_back(journal: Journal) -> None:
    """Ridge, lent at c1, is the lender's again at c2, which the borrower saved, as it did c3."""
    journal.lend(RIDGE, start_at("c1"))
    for id_, parent in (("c2", "c1"), ("c3", "c2")):
        journal.add_checkpoint(a_checkpoint(id_, parent, session="borrower"), advance=None)
    there = a_branch("ridge", "c3", session="borrower", state=BranchState.PAUSED)
    journal.put_branch(there)
    back = replace(RIDGE, state=BranchState.PAUSED, lent_to=None, head=CheckpointId("c2"))
    journal.put_branch(back)


def test_what_the_lender_stands_on_outlives_the_borrower(journal: Journal) -> None:
    given_back(journal)
    assert [it.id for it in journal.remove_session(BORROWER.id)] == ["c3"]
    assert journal.session(BORROWER.id) is None
    assert journal.session_by_key(BORROWER.key) is None
    assert [it.id for it in journal.sessions()] == [LENDER.id]
    assert [it.id for it in journal.checkpoints(LENDER.id)][-2:] == ["c1", "c2"]
    assert journal.kin(LENDER.id) == {BORROWER.id}


def test_what_the_borrower_stands_on_outlives_the_lender(journal: Journal) -> None:
    given_back(journal)
    assert journal.remove_session(LENDER.id) == []
    assert [it.id for it in journal.checkpoints(BORROWER.id)][-3:] == ["c1", "c2", "c3"]


def test_the_key_of_a_session_that_was_removed_can_be_had_again(journal: Journal) -> None:
    given_back(journal)
    journal.remove_session(BORROWER.id)
    journal.add_session(a_session("new", BORROWER.key))
    found = journal.session_by_key(BORROWER.key)
    assert found is not None
    assert found.id == "new"


def test_what_nobody_stands_on_any_more_of_a_removed_session_is_forgotten(
    journal: Journal,
) -> None:
    given_back(journal)
    journal.remove_session(BORROWER.id)
    assert journal.forget_needless() == []
    (ridge,) = journal.branches(LENDER.id)
    journal.pin(CheckpointId("c2"), pinned=True)
    journal.put_branch(replace(ridge, head=CheckpointId("c1")))
    assert journal.forget_needless() == []
    journal.pin(CheckpointId("c2"), pinned=False)
    assert [it.id for it in journal.forget_needless()] == ["c2"]
    assert journal.removed_sessions() == []


def test_a_checkpoint_is_not_removed_that_fresh_machines_of_a_session_start_from(
    journal: Journal,
) -> None:
    journal.lend(RIDGE, start_at("c1"))
    journal.put_branch(replace(RIDGE, state=BranchState.DROPPED, lent_to=None))
    with pytest.raises(UsageError, match="fresh machines start from checkpoint 'c1'"):
        journal.remove_checkpoint(CheckpointId("c1"))


def test_sessions_with_a_past_in_common_are_kin_through_others_too(journal: Journal) -> None:
    journal.lend(RIDGE, start_at("c1"))
    journal.add_checkpoint(a_checkpoint("c2", "c1", session="borrower"), advance=None)
    journal.add_session(start_at("c2", a_session("third", "demo-ridge-1.ipynb")))
    journal.add_session(a_session("stranger", "other.ipynb"))
    journal.add_checkpoint(a_checkpoint("d1", session="stranger"), advance=None)
    assert journal.kin(LENDER.id) == {"borrower", "third"}
    assert journal.kin(SessionId("third")) == {"lender", "borrower"}
    assert journal.kin(SessionId("stranger")) == set()


@dataclass(frozen=True)
class Books:
    """Sessions whose checkpoints, branches and starts lie across each other in any way."""

    sessions: list[SessionRecord]
    checkpoints: list[Checkpoint]
    branches: list[BranchRecord]

    @contextmanager
    def written(self) -> Generator[Journal]:
        """All of it on record."""
        with (
            TemporaryDirectory() as folder,
            Journal.open(Path(folder) / "lineage.db") as journal,
        ):
            for session in self.sessions:
                journal.add_session(session)
            for checkpoint in self.checkpoints:
                journal.add_checkpoint(checkpoint, advance=None)
            journal.put_branches(self.branches)
            yield journal

    def needed_by(self, sessions: list[SessionId]) -> set[str]:
        """The bases, and all that these have saved, stand on or start from."""
        parents = {it.id: it.parent for it in self.checkpoints}
        stood: set[str | None] = {it.start for it in self.sessions if it.id in sessions}
        for branch in self.branches:
            if branch.session in sessions and branch.state is not BranchState.DROPPED:
                stood |= {branch.head, branch.origin}
        stood |= {it.id for it in self.checkpoints if it.session in (None, *sessions)}
        needed = set[str]()
        for each in stood:
            while each is not None:
                needed.add(each)
                each = parents[CheckpointId(each)]
        return needed

    @property
    def names(self) -> list[SessionId]:
        """Those of the sessions."""
        return [it.id for it in self.sessions]

    def stood_on(self, session: SessionId) -> set[str]:
        """Which of a session's checkpoints others stand on."""
        own = {it.id for it in self.checkpoints if it.session == session}
        needed = {it.parent for it in self.checkpoints if it.session != session}
        needed |= {it.start for it in self.sessions if it.id != session}
        for branch in self.branches:
            if branch.session != session and branch.state is not BranchState.DROPPED:
                needed |= {branch.head, branch.origin}
        return {it for it in own if it in needed}


@st.composite
def books(draw: st.DrawFn) -> Books:
    """Three sessions over one tree."""
    names = ["one", "two", "three"]
    there = [a_base()]
    for number in range(draw(st.integers(1, 12))):
        parent, session = draw(st.sampled_from(there)), draw(st.sampled_from(names))
        there.append(a_checkpoint(f"c{number}", parent.id, session=session))
    ids = [it.id for it in there]
    sessions = [
        replace(a_session(name, name), start=draw(st.sampled_from([None, *ids]))) for name in names
    ]
    states = st.sampled_from([BranchState.PAUSED, BranchState.LOST, BranchState.DROPPED])
    branches = [
        a_branch(
            f"b{number}",
            draw(st.sampled_from(ids)),
            origin=draw(st.sampled_from(ids)),
            session=draw(st.sampled_from(names)),
            state=draw(states),
        )
        for number in range(draw(st.integers(0, 5)))
    ]
    return Books(sessions, there, branches)


@settings(max_examples=60)
@given(books())
def test_what_others_stand_on_is_told(made: Books) -> None:
    with made.written() as journal:
        for session in made.sessions:
            assert set(journal.stood_on(session.id)) == made.stood_on(session.id)


@settings(max_examples=60)
@given(books(), st.permutations(["one", "two", "three"]))
def test_sessions_are_removed_in_any_order_and_no_other_misses_anything(
    made: Books, order: list[str]
) -> None:
    with made.written() as journal:
        for place, name in enumerate(order):
            others = [SessionId(it) for it in order[place + 1 :]]
            before = {it.id for it in journal.every_checkpoint()}
            gone = {it.id for it in journal.remove_session(SessionId(name))}
            after = {it.id for it in journal.every_checkpoint()}
            assert after == before - gone
            assert after == made.needed_by(others)
            assert [it.id for it in journal.sessions()] == [it for it in made.names if it in others]
        assert [it.id for it in journal.every_checkpoint()] == [made.checkpoints[0].id]
        assert journal.removed_sessions() == []


@settings(max_examples=60)
@given(books(), st.integers(0, 3))
def test_whatever_a_budget_takes_is_a_sessions_own_and_stood_on_by_no_other(
    made: Books, most: int
) -> None:
    with made.written() as journal:
        for session in made.sessions:
            found = plan(
                journal.checkpoints(session.id),
                journal.branches(session.id),
                StoreBudgets(checkpoints=most),
                now=DAY + timedelta(days=1),
                start=session.start,
                session=session.id,
                stood_on=journal.stood_on(session.id),
            )
            assert {it.checkpoint.session for it in found.removed} <= {session.id}
            # In that order the record lets go of each: nothing stands on it any more.
            for verdict in found.removed:
                journal.remove_checkpoint(verdict.checkpoint.id)
