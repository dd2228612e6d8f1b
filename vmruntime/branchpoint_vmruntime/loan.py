"""What is on record of a branch that is lent, or was: decisions alone.

The lender's branch stands where it was lent until the borrower's session is closed. Then it stands
where that one has come to.
"""

from dataclasses import dataclass, replace

from branchpoint_vmruntime.claiming import new_session
from branchpoint_vmruntime.errors import NameTakenError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointKind,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import BAKED

SAVED = (BranchState.PAUSED, BranchState.PARKED, BranchState.LENT)
# Nothing runs in these, so that they stand where their head is.
AT_REST = (BranchState.PAUSED, BranchState.PARKED, BranchState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """How a session begins that continues a branch of another's: `branch`, of `lender` (a key).

    With `lent` the lender gets it back; otherwise that one has gone on by itself. `parted` tells
    that this is so since this opening, `unanswered` that it was not to be told whether it has gone
    on: whoever has it open was busy for too long. With `resumes` the session carries on as the
    branch it was last continued as; otherwise a fresh machine is the branch as it was opened.
    """

    branch: BranchName
    index: int
    lender: str
    lent: bool
    parted: bool = False
    unanswered: bool = False
    resumes: bool = False


def last_of(journal: Journal, session: SessionRecord) -> BranchRecord | None:
    """The branch a session was last continued as, unless there is none or it was given up."""
    return next(
        (
            branch
            for branch in journal.branches(session.id)
            if branch.name == session.current and branch.state is not BranchState.DROPPED
        ),
        None,
    )


def given_back(lent: BranchRecord, last: BranchRecord | None) -> BranchRecord:
    """A lent branch once nobody has its borrower open, which was last on branch `last`.

    It is lost, as a branch whose machine has ended, if that one was not saved at its last moment.
    """
    if last is None:
        return replace(lent, state=BranchState.PAUSED, lent_to=None)
    state = BranchState.PAUSED if last.state in SAVED else BranchState.LOST
    return replace(lent, head=last.head, state=state, lent_to=None)


def borrower_for(journal: Journal, key: str, branch: BranchRecord) -> SessionRecord:
    """The session that a branch is lent to: a new one, or the one that had it and is at its head.

    NameTakenError if the session of that key has gone another way.
    """
    known = journal.session_by_key(key)
    if known is None:
        return new_session(key, start=branch.head)
    last = last_of(journal, known)
    has_a_tree = bool(last or journal.tallies().get(known.id))
    there = (last.head if last else known.start) == branch.head
    is_free = journal.loan_of(known.id) is None and known.id != branch.session
    if is_free and (there or not has_a_tree):
        return replace(known, start=branch.head)
    raise NameTakenError(
        f"{key!r} has a session with branches and checkpoints of its own",
        hint="open the branch as a notebook of another name",
    )


def require_lendable(branch: BranchRecord, head: Checkpoint) -> None:
    """UsageError for a branch that was given up, or that has nothing saved to carry on from."""
    if branch.state is BranchState.DROPPED:
        raise UsageError(
            f"branch {branch.name!r} was dropped",
            hint="fork it anew from one of its checkpoints: `%fork 1 --from LABEL`",
        )
    if head.kind is CheckpointKind.BASE:
        raise UsageError(
            f"branch {branch.name!r} has saved nothing that another notebook could continue",
            hint="take a checkpoint first",
        )


def continues_a_branch(start: Checkpoint | None) -> bool:
    """Whether fresh machines that start there carry on with somebody's work.

    What is baked holds packages alone.
    """
    return start is not None and start.kind is not CheckpointKind.BASE and start.branch != BAKED
