"""The books of one session: its branches and which is current, its checkpoints, what was done."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.changes import Changes
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import is_set_aside, next_label, resolve, set_aside
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.loan import Loan, borrower_for, given_back, last_of
from branchpoint_vmruntime.outside.forwarding import nobody_sleeps
from branchpoint_vmruntime.outside.view import View
from branchpoint_vmruntime.storage.retention import StoreBudgets

log = logging.getLogger(__name__)

MAIN = BranchName("main")


class Register:
    """Keeps the journal and the branches in memory in step; knows no machines.

    With `fresh` the branches there are are set aside for a new `main`; without, they are carried on
    with. `awake` is for the session to set: it gives a branch that is paused its machine again.
    `changes` tells of all that is written here.
    """

    def __init__(
        self,
        record: SessionRecord,
        journal: Journal,
        base: Checkpoint,
        store: StoreBudgets | None = None,
        *,
        fresh: bool = True,
        loan: Loan | None = None,
    ) -> None:
        self.base = base
        self.loan = loan
        self.changes = Changes()
        self._fresh = fresh
        self.awake: Callable[[str], Awaitable[None]] = nobody_sleeps
        self.store = store or StoreBudgets()
        self._journal = journal
        left = _left_by_earlier_owner(record, journal) if fresh else _as_left(record, journal)
        self._branches = {b.name: OwnedBranch(b) for b in left}
        self.record = journal.session(record.id) or record
        self._current = self._last_continued() or self.first

    @property
    def first(self) -> BranchName:
        """What the first branch of a session is called that does not carry on as one."""
        return self.loan.branch if self.loan else MAIN

    @property
    def carries_on(self) -> bool:
        """Whether the session goes on as a branch there is; otherwise it starts with `first`."""
        return not self._fresh and self._last_continued() is not None

    @property
    def current(self) -> OwnedBranch:
        """The branch that operations without a name are about."""
        return self._branches[self._current]

    def continue_as(self, branch: OwnedBranch) -> None:
        """Make a branch the current one, on record too."""
        self._put_session(replace(self.record, current=branch.name))
        self._current = branch.name

    def start(self) -> Checkpoint | None:
        """The checkpoint that fresh machines carry on from; None if that is the base."""
        wanted = self.record.start
        found = self._journal.checkpoint(wanted) if wanted is not None else None
        if wanted is not None and found is None:
            log.warning("fresh machines start from the base: checkpoint %s is gone", wanted)
        return found

    def start_from(self, checkpoint: Checkpoint | None) -> None:
        """Have fresh machines carry on from a checkpoint from now on; None: from the base."""
        start = None if checkpoint is None else checkpoint.id
        self._put_session(replace(self.record, start=start))

    def borrower(self, branch: OwnedBranch) -> SessionRecord | None:
        """The session that a branch is lent to; None if it is not, or that one was removed."""
        to = branch.record.lent_to
        return self._journal.session(to) if to else None

    def borrower_for(self, key: str, branch: OwnedBranch) -> SessionRecord:
        """The session that a branch can be lent to by that key; NameTakenError."""
        return borrower_for(self._journal, key, branch.record)

    def lend(self, branch: OwnedBranch, to: SessionRecord) -> SessionRecord:
        """Put a branch without a machine on record as lent to a session that starts at its head."""
        record = replace(branch.record, state=BranchState.LENT, lent_to=to.id)
        self._journal.lend(record, replace(to, start=record.head))
        branch.become(record, None)
        return to

    def is_on_record(self, session: SessionRecord) -> bool:
        """Whether there is such a session."""
        return self._journal.session(session.id) is not None

    def take_back(self, branch: OwnedBranch) -> None:
        """Have a lent branch stand where the session that had it has come to."""
        borrower = self.borrower(branch)
        last = last_of(self._journal, borrower) if borrower else None
        record = given_back(branch.record, last)
        self._journal.put_branch(record)
        branch.become(record, None)

    def stood_on(self) -> dict[CheckpointId, str]:
        """The checkpoints of this session that others stand on, with the key of one that does."""
        return self._journal.stood_on(self.record.id)

    def branches(self) -> list[OwnedBranch]:
        """Every branch on record, in order of making."""
        return list(self._branches.values())

    def branch(self, name: str) -> OwnedBranch:
        """The branch of that name."""
        found = self._branches.get(BranchName(name))
        if found is None:
            known = tuple(b.name for b in self.branches() if b.state is not BranchState.DROPPED)
            raise UnknownNameError("branch", name, known, hint="%branches lists them")
        return found

    def taken_names(self) -> list[BranchName]:
        """Names a new branch cannot have."""
        return [b.name for b in self.branches() if b.state is not BranchState.DROPPED]

    def add(self, branches: Iterable[OwnedBranch]) -> None:
        """Put new branches on record; a name that is there already now means the new one."""
        new = list(branches)
        self._journal.put_branches([branch.record for branch in new])
        for branch in new:
            self._branches.pop(branch.name, None)
        self._branches.update({branch.name: branch for branch in new})
        self.changes.note()

    def add_first(self, branch: OwnedBranch) -> None:
        """Put the session's first branch on record, with what has become of an earlier owner's."""
        self._journal.put_branches([*(b.record for b in self.branches()), branch.record])
        others = {name: b for name, b in self._branches.items() if name != branch.name}
        self._branches = {branch.name: branch} | others
        self.continue_as(branch)

    def new_record(
        self, name: BranchName, index: int, *, parent: BranchName | None, origin: Checkpoint
    ) -> BranchRecord:
        """The record of a branch that has just woken from a checkpoint."""
        return BranchRecord(
            session=self.record.id,
            name=name,
            index=index,
            parent=parent,
            origin=origin.id,
            head=origin.id,
            state=BranchState.LIVE,
            created_at=datetime.now(UTC),
        )

    def put(self, record: BranchRecord) -> None:
        """Put a branch's new state on record."""
        self._journal.put_branch(record)
        self.changes.note()

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session and the bases they root in, oldest first."""
        found = self._journal.checkpoints(self.record.id)
        return found if any(c.id == self.base.id for c in found) else [self.base, *found]

    def add_checkpoint(self, saved: Checkpoint, *, advance: OwnedBranch | None) -> None:
        """Put a checkpoint on record and, if told, make it that branch's newest."""
        self._journal.add_checkpoint(saved, advance=advance.name if advance else None)
        if advance is not None:
            advance.advance(saved.id)
        self.changes.note()
        self.note("checkpoint", saved.branch, saved, saved.cost.total_ms, saved.cost.phases_ms)

    def pins(self) -> set[CheckpointId]:
        """The checkpoints of the session that are to be kept whatever else goes."""
        return self._journal.pins() & {c.id for c in self.checkpoints()}

    def pin(self, checkpoint: Checkpoint, *, pinned: bool) -> None:
        """Keep a checkpoint whatever else goes, or no longer."""
        self._journal.pin(checkpoint.id, pinned=pinned)
        self.changes.note()

    def annotate(
        self, checkpoint: Checkpoint, *, label: str | None, note: str | None
    ) -> Checkpoint:
        """Give a checkpoint of the session another label or note; what is None stays."""
        if checkpoint.session != self.record.id:
            raise UsageError(
                f"{checkpoint.label!r} is not this session's own",
                hint="take a checkpoint here: `%checkpoint LABEL` gives it a label of yours",
            )
        annotated = self._journal.annotate(checkpoint.id, label=label, note=note)
        self.changes.note()
        return annotated

    def remove(self, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Forget those checkpoints that nothing needs and nobody has pinned; which they were."""
        tree, kept = self.tree(), {*self.pins(), self.record.start}
        free = [c for c in checkpoints if c.session == self.record.id and c.id not in kept]
        gone: list[Checkpoint] = []
        # Children first: a parent is free once they are gone.
        for checkpoint in sorted(free, key=lambda c: tree.depth(c.id), reverse=True):
            with contextlib.suppress(UsageError):
                self._journal.remove_checkpoint(checkpoint.id)
                gone.append(checkpoint)
        self.changes.note()
        return gone

    def find(self, name: str | None, branch: OwnedBranch) -> Checkpoint:
        """By label, or by the start of an id; None: the branch's last."""
        if name is not None:
            every = self.checkpoints()
            # Of bases, that which machines of now start from; others are found by their ids.
            here = [c for c in every if c.kind is not CheckpointKind.BASE or c.id == self.base.id]
            with contextlib.suppress(UnknownNameError):
                return resolve(name, here)
            return resolve(name, every)
        head = self.tree().checkpoint(branch.record.head)
        if head.kind is CheckpointKind.BASE:
            raise UsageError(
                f"branch {branch.name!r} has no checkpoint to go back to yet",
                hint="take one with `%checkpoint LABEL`; `%rollback base` gives a fresh machine",
            )
        return head

    def view(self) -> View:
        """What the session's edge sees of it, as it is whenever it looks."""
        return View(
            session=self.record.id,
            branch=lambda: self._current,
            head=lambda name: known.record.head if (known := self._known(name)) else "",
            incarnation=self._incarnation,
            streams=lambda name: self.branch(name).streams,
            checkpoints=self.checkpoints,
            own_bytes=self._own_bytes,
            awake=lambda name: self.awake(name),
            paused=self._is_paused,
            kin=lambda: self._journal.kin(self.record.id),
        )

    def _put_session(self, record: SessionRecord) -> None:
        self._journal.put_session(record)
        self.record = record
        self.changes.note()

    def _last_continued(self) -> BranchName | None:
        """The branch the session was last continued as, or else any that there is."""
        there = [b.name for b in self.branches() if b.state is not BranchState.DROPPED]
        last = self.record.current
        return last if last in there else next(iter(there), None)

    def _is_paused(self, name: str) -> bool:
        branch = self._known(name)
        return branch is not None and branch.state is BranchState.PAUSED

    def _own_bytes(self) -> dict[str, int]:
        uses = {branch.name: branch.memory() for branch in self.branches()}
        return {name: use.own_bytes for name, use in uses.items() if use is not None}

    def _known(self, name: str) -> OwnedBranch | None:
        return self._branches.get(BranchName(name))

    def _incarnation(self, name: str) -> str:
        branch = self._known(name)
        live = branch.live if branch else None
        return live.machine.identity.incarnation if live else ""

    def tree(self) -> Tree:
        """The checkpoints as a tree."""
        return Tree(self.checkpoints(), [b.record for b in self.branches()])

    def next_label(self, prefix: str) -> str:
        """A label that is not taken."""
        return next_label(prefix, {c.label for c in self.checkpoints()})

    def operations(self, *, newest: int | None = None) -> list[Operation]:
        """What was done, oldest first, with what it cost: all of it, or the newest so many."""
        return self._journal.operations(self.record.id, newest=newest)

    def key_of(self, session: SessionId) -> str:
        """The key of a session of the same home; nothing if there is none."""
        found = self._journal.session(session)
        return "" if found is None else found.key

    def as_found_now(self) -> SessionRecord:
        """The session by the key that it has now: others may give it another."""
        # Who only wants to know who has it open is told that by a full disk as well.
        with contextlib.suppress(BranchpointError):
            return self._journal.session(self.record.id) or self.record
        return self.record

    def note(
        self,
        op: str,
        branch: BranchName,
        checkpoint: Checkpoint | None,
        total_ms: float,
        phases_ms: Mapping[str, float],
    ) -> None:
        """Put something done on record. That there is no room for it does not undo it."""
        done = Operation(
            session=self.record.id,
            op=op,
            branch=branch,
            checkpoint=checkpoint.id if checkpoint else None,
            at=datetime.now(UTC),
            total_ms=round(total_ms, 3),
            phases_ms=phases_ms,
        )
        try:
            self._journal.add_operation(done)
        except BranchpointError as error:
            log.warning("what was done is not on record: %s of %s: %s", op, branch, error)
        self.changes.note()


def _left_by_earlier_owner(session: SessionRecord, journal: Journal) -> list[BranchRecord]:
    """The branches of an earlier kernel, as they are now that it has gone.

    Those that never left where fresh machines start are dropped; the others can be reopened under a
    name set aside, so that the same notebook can be run again from its first cell.
    """
    starts = {c.id for c in journal.checkpoints(session.id) if c.kind is CheckpointKind.BASE}
    starts |= {session.start} if session.start else set()
    known = [_without_machine(record, starts) for record in journal.branches(session.id)]
    taken = {record.name for record in known}
    names: dict[BranchName, BranchName] = {}
    for record in known:
        if record.state is not BranchState.DROPPED and not is_set_aside(record.name):
            names[record.name] = set_aside(record.name, taken)
            taken.add(names[record.name])
    journal.put_branches(known)
    journal.rename_branches(session.id, names)
    if session.current is not None and session.current in names:
        journal.put_session(replace(session, current=names[session.current]))
    return journal.branches(session.id)


def _as_left(session: SessionRecord, journal: Journal) -> list[BranchRecord]:
    """The branches of an earlier owner under the names they had; whose machine went is lost."""
    known = [_without_machine(record, set()) for record in journal.branches(session.id)]
    journal.put_branches(known)
    return known


def _without_machine(record: BranchRecord, starts: set[CheckpointId]) -> BranchRecord:
    if record.state in (BranchState.LIVE, BranchState.LOST):
        state = BranchState.DROPPED if record.head in starts else BranchState.LOST
        return replace(record, state=state)
    return record
