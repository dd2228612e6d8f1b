"""Lender and borrower are removed: in which order, and what that takes along."""

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_checkpoint
from tests.unit.runtime.lent import KEY, LENDER, closed, files, has_files, now, ridge, works_in

from branchpoint_vmruntime.borrowing import lend_on_record, settle, take_up
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import sweep
from branchpoint_vmruntime.lineage import BranchState, CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_session, require_removable


@in_a_loop
async def test_a_notebook_that_is_removed_gives_back_first_what_it_has_saved(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.PAUSED)
    closed(home, to)
    removed = remove_session(home, to.id)
    assert (removed.given_back, removed.given_back_to) == ("ridge", LENDER.key)
    assert (removed.checkpoints, removed.kept, removed.needed_by) == (0, 1, (LENDER.key,))
    assert (ridge(journal).state, ridge(journal).head) == (BranchState.PAUSED, "c2")
    assert [it.id for it in journal.sessions()] == [LENDER.id]


@pytest.mark.parametrize("first", ["lender", "borrower"])
@in_a_loop
async def test_lender_and_borrower_are_removed_in_either_order(
    home: Home, journal: Journal, first: str
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.PAUSED)
    more = a_checkpoint("c3", "c2", session=to.id, branch="else")
    journal.add_checkpoint(more, advance=None)
    has_files(home, "lender", "c1")
    has_files(home, to.id, "c2", "c3")
    closed(home, to)
    settle(home)
    if first == "lender":
        assert remove_session(home, "lender").needed_by == (KEY,)
        assert files(home) == {"c1", "c2", "c3"}
        assert remove_session(home, to.id).freed_bytes > 15000
    else:
        assert remove_session(home, to.id).checkpoints == 1
        assert files(home) == {"c1", "c2"}
        assert sweep(home) == []
        assert files(home) == {"c1", "c2"}
        assert remove_session(home, "lender").freed_bytes > 10000
    assert (journal.sessions(), journal.removed_sessions(), files(home)) == ([], [], set())
    assert not list(home.layers.iterdir())


@in_a_loop
async def test_a_lender_whose_branch_is_open_elsewhere_stays_and_says_what_ends_that(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    (home.layers / to.id).mkdir()
    with locked(home.layers / to.id, wait=False):
        with pytest.raises(UsageError, match=f"'ridge' is open as '{KEY}', session") as refused:
            remove_session(home, "lender")
        with pytest.raises(UsageError, match="'ridge' is open as"):
            require_removable(home, "lender")
    assert f"`branchpoint rm {to.id}`" in refused.value.hint
    # Closed, or removed: the advice holds.
    remove_session(home, "lender")
    assert journal.session(LENDER.id) is None


@in_a_loop
async def test_a_lender_is_removed_whose_branch_nobody_has_come_for(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    assert remove_session(home, "lender").needed_by == (KEY,)
    assert now(journal, to).start == "c1"
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert (loan.lent, loan.lender) == (False, "")


@in_a_loop
async def test_what_is_left_of_a_removal_that_was_cut_off_is_swept(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.PAUSED)
    has_files(home, "lender", "c1")
    has_files(home, to.id, "c2", "c3")
    closed(home, to)
    settle(home)
    # On record, and killed before any file went.
    journal.remove_session(to.id)
    sweep(home)
    assert files(home) == {"c1", "c2"}
    journal.remove_session(LENDER.id)
    sweep(home)
    assert files(home) == set()


@in_a_loop
async def test_what_cannot_be_given_back_yet_is_not_removed(home: Home, journal: Journal) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.PAUSED)
    closed(home, to)
    with (
        locked(home.layers / "lender", wait=False),
        pytest.raises(UsageError, match="not given back yet"),
    ):
        remove_session(home, to.id)
    assert journal.checkpoint(CheckpointId("c2")) is not None


@in_a_loop
async def test_a_notebook_that_has_saved_nothing_is_removed_at_once(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    removed = remove_session(home, to.id)
    assert (removed.given_back, removed.kept, removed.needed_by) == ("ridge", 0, ())
    assert (ridge(journal).state, ridge(journal).head) == (BranchState.PAUSED, "c1")
