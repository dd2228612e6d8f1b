"""How a session begins that continues a branch of another's, and lending where nobody has it open.

The lender is asked if somebody has it open; otherwise its folder is held while its record changes.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

from branchpoint_vmruntime.borrowers import HomeBorrowers, has_come, was_restarted
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.errors import (
    BranchpointError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lending import is_elsewhere
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    CheckpointId,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import without_number
from branchpoint_vmruntime.loan import (
    AT_REST,
    Loan,
    borrower_for,
    continues_a_branch,
    given_back,
    last_of,
    require_lendable,
)
from branchpoint_vmruntime.locks import closed_session, holder, tidying
from branchpoint_vmruntime.session_control import SessionControl, is_answered

log = logging.getLogger(__name__)

# A lender that is opened at the same moment has a machine to wake before it answers.
_LENT_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 10.0
_TRY_EVERY_S = 0.1


async def take_up(
    home: Home, journal: Journal, record: SessionRecord, *, fresh: bool
) -> Loan | None:
    """How a session that this process has just claimed continues a branch; None if it does not.

    What was given back meanwhile is lent again, if the lender has left it as it was. A kernel that
    was restarted begins where the branch was opened; any other where the session has come to. With
    `fresh` the session is to have a machine.
    """
    restarted = was_restarted(home, record.id)
    has_come(home, record.id)
    start = journal.checkpoint(record.start) if record.start else None
    lent, last = journal.loan_of(record.id), last_of(journal, record)
    if lent is None and not continues_a_branch(start):
        return None
    stands_on, is_known = last.head if last else record.start, True
    if lent is None and stands_on is not None:
        called = last.name if last else start.branch if start else ""
        is_known = await _lent_again(home, journal, record, stands_on, called)
        lent = journal.loan_of(record.id)
    opened_at = record.start if restarted or last is None else last.head
    if opened_at is not None:
        journal.put_session(replace(record, start=opened_at))
    lender = lent.session if lent else start.session if start else None
    other = journal.session(lender) if lender and lender != record.id else None
    name = lent.name if lent else last.name if last else start.branch if start else "main"
    return Loan(
        branch=BranchName(without_number(name)),
        index=lent.index if lent else last.index if last else 0,
        lender=other.key if other else "",
        lent=lent is not None,
        parted=lent is None and other is not None and not restarted,
        unanswered=not is_known,
        resumes=fresh and not restarted and last is not None,
    )


async def lend_on_record(home: Home, session: str, branch: str, key: str) -> SessionRecord:
    """Lend a branch of a session that nobody has open; the session that continues it.

    As `Session.lend`; the branch that session was last continued as can be lent as well.
    SessionBusyError if somebody has it open, UnknownNameError for names that are not known.
    """
    return await asyncio.to_thread(_lend_on_record, home, session, branch, as_key(key))


def settle(home: Home) -> list[BranchRecord]:
    """Give back, to sessions that nobody has open, what was lent to such; the branches.

    An open session looks by itself. What cannot be given back now is told in the log, and is the
    next time that somebody looks.
    """
    found: list[BranchRecord] = []
    try:
        with Journal.open(home.database) as journal:
            for lender in dict.fromkeys(branch.session for branch in journal.lent()):
                found += _settled(home, journal, lender)
    except (BranchpointError, OSError) as error:
        log.warning("what was lent could not be given back: %s", error)
    return found


def _settled(home: Home, journal: Journal, lender: SessionId) -> list[BranchRecord]:
    """What one lender gets back; nothing if somebody has it open, or its record cannot be kept."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(tidying(home, wait=False))
            held.enter_context(closed_session(home, lender, lender))
            return list(taken_back(home, journal, lender))
        except (BlockingIOError, SessionBusyError):
            pass
        except (BranchpointError, OSError) as error:
            log.warning("what %s has lent could not be given back: %s", lender, error)
    return []


def taken_back(
    home: Home, journal: Journal, lender: SessionId, asked: str | None = None
) -> Iterator[BranchRecord]:
    """What a lender gets back whose folder, and that of all that tidy up, this process holds.

    Also the branch that is `asked` for if its notebook has not been opened yet; "" is any of them.
    """
    borrowers = HomeBorrowers(home, holds_tidying=True)
    for branch in [it for it in journal.lent() if it.session == lender]:
        wanted = asked in ("", branch.name)
        borrower = journal.session(branch.lent_to) if branch.lent_to else None
        if borrower is None:
            back = given_back(branch, None)
            journal.put_branch(back)
            yield back
            continue
        with borrowers.gone(borrower.id, borrower.key, asked=wanted) as gone:
            if gone:
                back = given_back(branch, last_of(journal, borrower))
                journal.put_branch(back)
                yield back


def _lend_on_record(home: Home, session: str, branch: str, key: str) -> SessionRecord:
    home.ensure()
    with Journal.open(home.database) as journal, tidying(home):
        record = journal.session(SessionId(session))
        if record is None:
            raise UnknownNameError("session", session, tuple(it.id for it in journal.sessions()))
        with closed_session(home, record.id, record.key):
            list(taken_back(home, journal, record.id, branch))
            wanted = _named(journal, record, branch)
            head = journal.checkpoint(wanted.head)
            if head is None:
                raise UsageError(f"the checkpoint that branch {branch!r} stands on is gone")
            require_lendable(wanted, head)
            to = borrower_for(journal, key, wanted)
            if holder(home.layers / to.id) is not None:
                raise SessionBusyError(f"{key!r} is open already", hint="close that notebook first")
            _lend(journal, wanted, to)
            HomeBorrowers(home).expect(record.id, to.id)
    return to


def _named(journal: Journal, record: SessionRecord, name: str) -> BranchRecord:
    there = journal.branches(record.id)
    found = next((it for it in there if it.name == name), None)
    if found is None:
        known = tuple(it.name for it in there if it.state is not BranchState.DROPPED)
        raise UnknownNameError("branch", name, known, hint="`branchpoint tree` shows them")
    if found.state is BranchState.LENT:
        borrower = journal.session(found.lent_to) if found.lent_to else None
        raise is_elsewhere(found.name, borrower.key if borrower else "")
    return found


def _lend(journal: Journal, branch: BranchRecord, to: SessionRecord) -> None:
    journal.lend(replace(branch, state=BranchState.LENT, lent_to=to.id), to)


async def _lent_again(
    home: Home, journal: Journal, record: SessionRecord, stands_on: CheckpointId, called: str
) -> bool:
    """Have the branch lent again that a session has given back, unless it has moved on.

    False if that cannot be told: of those who hold the lender nobody answered in time.
    """
    by = time.monotonic() + _LENT_WITHIN_S
    try:
        # Looked up each time: who opens the lender may set the branch aside under another name.
        while wanted := _given_back_by(journal, record, stands_on, called):
            lender = journal.session(wanted.session)
            # Whose notebook is called otherwise meanwhile has another key.
            to = journal.session(record.id) or record
            if lender is None or await _is_decided(home, lender, wanted, to, by):
                break
            if time.monotonic() >= by:
                raise SessionBusyError(f"whoever has {lender.key!r} open does not come to it")
            await asyncio.sleep(_TRY_EVERY_S)
    except (BranchpointError, OSError) as error:
        log.warning("branch %s is not lent again to %s: %s", called, record.key, error)
        return False
    return True


async def _is_decided(
    home: Home, lender: SessionRecord, wanted: BranchRecord, to: SessionRecord, by: float
) -> bool:
    """Have a branch lent, or refused, by whoever has the lender open, or on record if nobody has.

    False if it is worth another try: who holds the lender may be just opening it, or leaving it.
    """
    if holder(home.layers / lender.id) is None:
        # Some holders cannot be seen from here.
        with contextlib.suppress(SessionBusyError):
            return await asyncio.to_thread(_lend_again_on_record, home, lender, wanted, to)
    if not await is_answered(home, lender.id):
        return False
    try:
        # Waited for beyond `by`: what began in time is done, and is to be known of here.
        async with (
            asyncio.timeout_at(by + _ANSWERS_WITHIN_S),
            SessionControl(home.control(lender.id)) as control,
        ):
            await control.lend(wanted.name, to.key, again=True, by=by)
    except (SessionBusyError, UnknownNameError):
        return False
    except BranchpointError as error:
        if not await is_answered(home, lender.id):
            return False
        log.warning("branch %s of %s is not lent again: %s", wanted.name, lender.key, error)
    return True


def _given_back_by(
    journal: Journal, borrower: SessionRecord, stands_on: CheckpointId, called: str
) -> BranchRecord | None:
    """Of the branches that are where that one has come to, the one it has had; by name, if several.

    What others continue that have borrowed as well is theirs.
    """
    there = [it for it in journal.branches_on(stands_on) if it.session != borrower.id]
    theirs = [it for it in there if it.state in AT_REST and not _is_continued(journal, it)]
    named = [it for it in theirs if without_number(it.name) == without_number(called)]
    return next(iter(named or theirs), None)


def _is_continued(journal: Journal, branch: BranchRecord) -> bool:
    """Whether it is the branch of another's that its own session is there to continue."""
    session = journal.session(branch.session)
    if session is None or session.current != branch.name:
        return False
    start = journal.checkpoint(session.start) if session.start else None
    return continues_a_branch(start)


def _lend_again_on_record(
    home: Home, lender: SessionRecord, branch: BranchRecord, to: SessionRecord
) -> bool:
    """Whether it is lent; it is not if it is another by now than was found."""
    with (
        Journal.open(home.database) as journal,
        tidying(home),
        closed_session(home, lender.id, lender.key),
    ):
        now = [it for it in journal.branches_on(branch.head) if it.session == lender.id]
        if branch in now:
            _lend(journal, branch, replace(to, start=branch.head))
        return branch in now
