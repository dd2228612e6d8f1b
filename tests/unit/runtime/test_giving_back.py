"""When a branch that was lent is back, and as what."""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_branch, a_checkpoint, a_session
from tests.unit.runtime.lent import KEY, closed, now, ridge, worked_in

from branchpoint_vmruntime import borrowing
from branchpoint_vmruntime.borrowers import AWAITED, EXPECTED_WITHIN_S
from branchpoint_vmruntime.borrowing import lend_on_record, settle, take_up
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.errors import SessionBusyError, UnknownNameError, UsageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.loan import Loan


@in_a_loop
async def test_one_that_was_closed_is_given_back_and_lent_again_where_it_has_come_to(
    home: Home, journal: Journal
) -> None:
    to = await worked_in(home, journal)
    assert settle(home) == [ridge(journal)]
    assert (ridge(journal).state, ridge(journal).head) == (BranchState.PAUSED, "c2")
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert (loan.lent, loan.resumes, now(journal, to).start) == (True, True, "c2")
    assert ridge(journal).lent_to == to.id


@in_a_loop
async def test_what_is_lent_again_is_given_back_again(home: Home, journal: Journal) -> None:
    to = await worked_in(home, journal)
    settle(home)
    await take_up(home, journal, now(journal, to), fresh=True)
    assert [it.head for it in settle(home)] == ["c2"]


@in_a_loop
async def test_a_lender_that_has_moved_on_keeps_its_branch_and_that_is_told_once(
    home: Home, journal: Journal
) -> None:
    to = await worked_in(home, journal)
    settle(home)
    moved = a_checkpoint("c3", "c2", session="lender", branch="ridge")
    journal.add_checkpoint(moved, advance=BranchName("ridge"))
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert (loan.lent, loan.parted, loan.resumes) == (False, True, True)
    assert now(journal, to).start == "c2"
    assert (ridge(journal).state, ridge(journal).head) == (BranchState.PAUSED, "c3")
    later = await take_up(home, journal, now(journal, to), fresh=True)
    assert later is not None
    assert not later.parted


@in_a_loop
async def test_of_several_branches_where_it_has_come_to_it_is_lent_the_one_it_had(
    home: Home, journal: Journal
) -> None:
    fork = a_branch("fork", "c1", session="lender", state=BranchState.LOST)
    mine = ridge(journal)
    journal.put_branches([replace(mine, state=BranchState.DROPPED), fork])
    journal.put_branch(replace(mine, name=BranchName("ridge~1")))
    to = await lend_on_record(home, "lender", "ridge~1", KEY)
    works_on = a_branch("ridge", "c1", session=to.id, state=BranchState.PAUSED)
    journal.put_branch(works_on)
    journal.put_session(replace(to, current=BranchName("ridge")))
    closed(home, to)
    settle(home)
    assert await take_up(home, journal, now(journal, to), fresh=True)
    assert {it.name for it in journal.lent()} == {"ridge~1"}


@in_a_loop
async def test_it_is_lent_nothing_that_another_borrower_continues(
    home: Home, journal: Journal
) -> None:
    other = replace(a_session("other", "/notes/other.ipynb"), start=CheckpointId("c1"))
    journal.add_session(replace(other, current=BranchName("ridge")))
    journal.put_branch(a_branch("ridge", "c1", session="other", state=BranchState.PAUSED))
    to = await lend_on_record(home, "lender", "ridge", KEY)
    closed(home, to)
    settle(home)
    journal.put_branch(replace(ridge(journal), state=BranchState.LIVE))
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert not loan.lent
    assert journal.lent() == []


@in_a_loop
async def test_a_branch_the_lender_has_awake_has_moved_on(home: Home, journal: Journal) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    closed(home, to)
    settle(home)
    journal.put_branch(replace(ridge(journal), state=BranchState.LIVE))
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    assert not loan.lent


@in_a_loop
async def test_nothing_is_given_back_while_the_borrower_is_open(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    closed(home, to)
    (home.layers / to.id).mkdir()
    with locked(home.layers / to.id, wait=False):
        assert settle(home) == []
    assert len(settle(home)) == 1


@in_a_loop
async def test_a_borrower_is_waited_for_but_not_for_ever(home: Home, journal: Journal) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    assert settle(home) == []
    long_ago = time.time() - EXPECTED_WITHIN_S - 1
    os.utime(home.session(to.id) / AWAITED, (long_ago, long_ago))
    assert len(settle(home)) == 1
    assert ridge(journal).state is BranchState.PAUSED


@in_a_loop
async def test_a_session_that_is_open_is_not_given_back_to_behind_its_back(
    home: Home, journal: Journal
) -> None:
    to = await lend_on_record(home, "lender", "ridge", KEY)
    closed(home, to)
    with locked(home.layers / "lender", wait=False):
        assert settle(home) == []
    assert ridge(journal).state is BranchState.LENT


@in_a_loop
async def test_what_one_lender_cannot_get_back_keeps_no_other_from_its_own(
    home: Home, journal: Journal
) -> None:
    for name in ("another", "lender"):
        if name != "lender":
            journal.add_session(a_session(name, f"/notes/{name}.ipynb"))
            journal.put_branch(a_branch("ridge", "c1", session=name, state=BranchState.PAUSED))
        to = await lend_on_record(home, name, "ridge", f"/notes/{name}-ridge.ipynb")
        closed(home, to)
    (home.layers / "another").rmdir()
    # Neither a folder nor to be made one.
    (home.layers / "another").write_text("")
    assert [it.session for it in settle(home)] == ["lender"]


# Longer than it takes to find out that nobody answers, and to try that again.
A_WHILE_S = 0.3


@dataclass
class Opened:
    """The lender, open: it lends the branch that it has, unless it has something else to say."""

    home: Home
    journal: Journal
    to: SessionRecord
    says: list[Exception] = field(default_factory=list[Exception])
    heard: list[str] = field(default_factory=list[str])

    def server(self) -> ControlServer:
        """Where it answers."""
        return ControlServer(self.home.control("lender"), {"lend": self._lend})

    async def _lend(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.heard.append(request["branch"])
        branch = ridge(self.journal)
        if self.says:
            raise self.says.pop(0)
        if request["branch"] != branch.name:
            raise UnknownNameError("branch", request["branch"], (branch.name,))
        self.journal.lend(replace(branch, state=BranchState.LENT, lent_to=self.to.id), self.to)
        return {"session": self.to.id, "key": KEY}


async def taken_up(home: Home, journal: Journal, to: SessionRecord) -> Loan:
    loan = await take_up(home, journal, now(journal, to), fresh=True)
    assert loan is not None
    return loan


async def opened_again(home: Home, journal: Journal) -> Opened:
    """Borrower and lender were closed, and whoever came first has settled what they had."""
    opened = Opened(home, journal, await worked_in(home, journal))
    settle(home)
    (home.layers / "lender").mkdir(exist_ok=True)
    return opened


@in_a_loop
async def test_a_lender_that_is_just_being_opened_is_waited_for(
    home: Home, journal: Journal
) -> None:
    lender = await opened_again(home, journal)
    with locked(home.layers / "lender", wait=False):
        taking = asyncio.create_task(taken_up(home, journal, lender.to))
        await asyncio.sleep(A_WHILE_S)
        # A fresh kernel sets aside what it finds, before it answers.
        journal.rename_branches(
            ridge(journal).session, {BranchName("ridge"): BranchName("ridge~1")}
        )
        async with lender.server():
            loan = await taking
    assert (loan.lent, loan.parted) == (True, False)
    assert lender.heard[-1] == "ridge~1"


@in_a_loop
async def test_a_lender_that_somebody_holds_for_a_moment_lends_all_the_same(
    home: Home, journal: Journal
) -> None:
    lender = await opened_again(home, journal)
    with locked(home.layers / "lender", wait=False):
        taking = asyncio.create_task(taken_up(home, journal, lender.to))
        await asyncio.sleep(A_WHILE_S)
    loan = await taking
    assert (loan.lent, loan.parted, ridge(journal).lent_to) == (True, False, lender.to.id)


@in_a_loop
async def test_a_lender_that_is_just_being_closed_lends_on_record(
    home: Home, journal: Journal
) -> None:
    lender = await opened_again(home, journal)
    lender.says += [SessionBusyError("that session is just being closed")] * 9
    with locked(home.layers / "lender", wait=False):
        async with lender.server():
            taking = asyncio.create_task(taken_up(home, journal, lender.to))
            while not lender.heard:  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert (await taking).lent
    assert ridge(journal).lent_to == lender.to.id


@in_a_loop
async def test_a_lender_that_refuses_is_not_asked_again(home: Home, journal: Journal) -> None:
    lender = await opened_again(home, journal)
    lender.says.append(UsageError("ridge has gone on here since"))
    with locked(home.layers / "lender", wait=False):
        async with lender.server():
            loan = await taken_up(home, journal, lender.to)
    assert (loan.lent, loan.parted, loan.unanswered) == (False, True, False)
    assert lender.heard == ["ridge"]


@in_a_loop
async def test_a_lender_that_never_answers_is_not_said_to_have_gone_on(
    home: Home, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borrowing, "_LENT_WITHIN_S", A_WHILE_S)
    lender = await opened_again(home, journal)
    with locked(home.layers / "lender", wait=False):
        loan = await taken_up(home, journal, lender.to)
    assert (loan.lent, loan.parted, loan.unanswered) == (False, True, True)
    assert ridge(journal).lent_to is None
