"""How a session begins that continues another's branch, and lending where nobody is there."""

import errno
import os
from dataclasses import replace

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_branch, a_checkpoint
from tests.unit.runtime.lent import KEY, LENDER, now, ridge, works_in

from branchpoint_vmruntime.borrowers import AWAITED, RESTARTED, HomeBorrowers
from branchpoint_vmruntime.borrowing import lend_on_record, take_up
from branchpoint_vmruntime.errors import SessionBusyError, UnknownNameError, UsageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.store import LayerStore


@in_a_loop
async def test_a_branch_of_a_closed_session_is_lent(home: Home, journal: Journal) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    assert (ridge(journal).state, ridge(journal).lent_to) == (BranchState.LENT, to.id)
    assert (now(journal, to).key, now(journal, to).start) == (KEY, "c1")


@in_a_loop
async def test_one_of_a_session_that_is_open_is_for_whoever_has_it_open(
    home: Home, journal: Journal
) -> None:
    (home.layers / "lender").mkdir()
    with locked(home.layers / "lender", wait=False), pytest.raises(SessionBusyError):
        await lend_on_record(home, "lender", "ridge", KEY)
    assert ridge(journal).state is BranchState.PAUSED


@in_a_loop
async def test_names_that_are_not_known_are_told(home: Home, journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="forest"):
        await lend_on_record(home, "lender", "forest", KEY)
    with pytest.raises(UnknownNameError, match="lendre"):
        await lend_on_record(home, "lendre", "ridge", KEY)
    assert journal.lent() == []


@in_a_loop
async def test_what_is_lent_already_is_refused_with_who_has_it(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    (home.layers / to.id).mkdir()
    with (
        locked(home.layers / to.id, wait=False),
        pytest.raises(UsageError, match="open as 'demo-ridge"),
    ):
        await lend_on_record(home, "lender", "ridge", "/notes/other.ipynb")
    assert len(journal.sessions()) == 2


@in_a_loop
async def test_a_copy_that_nobody_has_opened_yet_holds_nothing(
    home: Home, journal: Journal
) -> None:
    never = await lend_on_record(home, "lender", "ridge", KEY)
    other = await lend_on_record(home, "lender", "ridge", "/notes/other.ipynb")
    assert ridge(journal).lent_to == other.id
    # Whoever opens it all the same goes on from there by themselves, and is told so.
    journal.put_branch(replace(ridge(journal), state=BranchState.LIVE))
    loan = await take_up(home, journal, now(journal, never), fresh=True)
    assert loan is not None
    assert (loan.lent, loan.parted, loan.resumes) == (False, True, False)


@in_a_loop
async def test_a_branch_that_has_saved_nothing_is_not_lent(home: Home, journal: Journal) -> None:
    journal.put_branch(a_branch("ridge", session="lender", state=BranchState.LOST))
    with pytest.raises(UsageError, match="has saved nothing"):
        await lend_on_record(home, "lender", "ridge", KEY)


@in_a_loop
async def test_a_session_that_continues_no_branch_begins_as_any(
    home: Home, journal: Journal
) -> None:
    assert await take_up(home, journal, LENDER, fresh=True) is None


@in_a_loop
async def test_it_begins_as_the_branch_it_was_lent(home: Home, journal: Journal) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    loan = await take_up(home, journal, to, fresh=True)
    assert loan == Loan(
        branch=BranchName("ridge"), index=2, lender=LENDER.key, lent=True, resumes=False
    )


@in_a_loop
async def test_the_name_is_that_before_it_was_set_aside(home: Home, journal: Journal) -> None:
    journal.rename_branches(LENDER.id, {BranchName("ridge"): BranchName("ridge~1")})
    to = await lend_on_record(home, "lender", "ridge~1", KEY)
    loan = await take_up(home, journal, to, fresh=True)
    assert loan is not None
    assert loan.branch == "ridge"


@in_a_loop
async def test_a_kernel_that_is_restarted_begins_where_the_branch_was_opened(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.LIVE)
    (home.session(to.id) / RESTARTED).touch()
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert (loan.resumes, now(journal, to).start) == (False, "c1")


@in_a_loop
async def test_the_first_machine_finds_the_edge_it_knows(home: Home, journal: Journal) -> None:
    folder = home.session("lender")
    folder.mkdir(parents=True)
    (folder / "ca.pem").write_text("the lender's")
    to = await lend_on_record(home, "lender", "ridge", KEY)
    edge = home.session(to.id) / "ca.pem"
    assert edge.read_text() == "the lender's"
    assert edge.stat().st_mode & 0o777 == 0o600
    assert journal.loan_of(to.id) is not None


@in_a_loop
async def test_nothing_half_copied_is_left_of_the_edge(
    home: Home, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home.session("lender")
    folder.mkdir(parents=True)
    (folder / "ca.pem").write_text("the lender's")

    def fails(_file: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    to = await lend_on_record(home, "lender", "ridge", KEY)
    assert [it.name for it in home.session(to.id).iterdir()] == [AWAITED]


def test_whoever_looks_keeps_the_borrower_closed_meanwhile(home: Home) -> None:
    with HomeBorrowers(home).gone("b", "b.ipynb") as gone:
        assert gone
        with pytest.raises(BlockingIOError), locked(home.layers / "b", wait=False):
            pass


def test_a_checkpoint_id_of_another_session_is_found_beside(home: Home) -> None:
    store = LayerStore(home.layers / "lender")
    theirs = a_checkpoint("c9", session="borrower")
    assert store.of(theirs).folder == home.layers / "borrower" / CheckpointId("c9")
