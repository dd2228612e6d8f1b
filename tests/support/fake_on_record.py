"""What is on record of a session that is made up: its checkpoints, branches and what was done."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tests.support.fake_branch import FakeBranch

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.changes import Changes
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import check_label, next_label, resolve
from branchpoint_vmruntime.lineage.tree import Tree

SESSION = SessionId("s-fake")


class FakeOnRecord:
    """The part of a FakeSession that only looks and notes; nothing of it is on disk."""

    current: FakeBranch

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.record = SessionRecord(
            id=SESSION, key="fake", created_at=now, current=BranchName("main")
        )
        self.changes = Changes()
        self._points = [self._make("base", CheckpointKind.BASE, BranchName(""), None)]
        self._done: list[Operation] = []
        self._pins: set[CheckpointId] = set()
        self._branches: dict[str, FakeBranch] = {}

    def branches(self) -> list[Branch]:
        """All branches."""
        return list[Branch](self._branches.values())

    def branch(self, name: str) -> FakeBranch:
        """One of them."""
        if name not in self._branches:
            raise UnknownNameError("branch", name, tuple(self._taken()))
        return self._branches[name]

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints."""
        return list(self._points)

    def path(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """From it to the base."""
        return list(Tree(self._points).path(checkpoint.id))

    def find(self, name: str | None, *, branch: str | None = None) -> Checkpoint:
        """One of them."""
        if name is not None:
            return resolve(name, self._points)
        wanted = self._of(branch)
        head = resolve(wanted.record.head, self._points)
        if head.kind is CheckpointKind.BASE:
            raise UsageError(
                f"branch {wanted.name!r} has no checkpoint to go back to yet",
                hint="take one with `%checkpoint LABEL`; `%rollback base` gives a fresh machine",
            )
        return head

    def operations(self, *, newest: int | None = None) -> list[Operation]:
        """What was done, but for switches and drops."""
        return self._done if newest is None else self._done[-newest:]

    def key_of(self, session: SessionId) -> str:
        """There is no other."""
        return "" if session != self.record.id else self.record.key

    def pins(self) -> set[CheckpointId]:
        """Those that were pinned."""
        return set(self._pins)

    async def pin(self, checkpoint: Checkpoint, *, pinned: bool = True) -> None:
        """Keep it, or no longer."""
        (self._pins.add if pinned else self._pins.discard)(checkpoint.id)
        self.changes.note()

    async def annotate(
        self, checkpoint: Checkpoint, *, label: str | None = None, note: str | None = None
    ) -> Checkpoint:
        """Give it another label or note."""
        if checkpoint.session is None:
            raise UsageError(f"{checkpoint.label!r} is not this session's own")
        now = replace(
            checkpoint,
            label=checkpoint.label if label is None else check_label(label),
            note=checkpoint.note if note is None else note,
        )
        self._points = [now if point.id == checkpoint.id else point for point in self._points]
        self.changes.note()
        return now

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Forget those that nothing needs."""
        needed = {point.parent for point in self._points} | self._pins
        needed |= {it.record.head for it in self._branches.values()}
        gone = [point for point in checkpoints if point.id not in needed]
        self._points = [point for point in self._points if point not in gone]
        return gone

    def _of(self, name: str | None) -> FakeBranch:
        return self.current if name is None else self.branch(name)

    def _resolve(self, target: Checkpoint | str | None, branch: str | None = None) -> Checkpoint:
        return target if isinstance(target, Checkpoint) else self.find(target, branch=branch)

    def _next_label(self, prefix: str) -> str:
        return next_label(prefix, {point.label for point in self._points})

    def _taken(self) -> list[str]:
        return [n for n, it in self._branches.items() if it.state is not BranchState.DROPPED]

    def _not_dropped(self, branch: FakeBranch) -> FakeBranch:
        if branch.state is BranchState.DROPPED:
            raise UsageError(f"branch {branch.name!r} was dropped")
        return branch

    def _record(
        self, name: str, index: int, parent: str | None, origin: CheckpointId
    ) -> BranchRecord:
        return BranchRecord(
            session=SESSION,
            name=BranchName(name),
            index=index,
            parent=None if parent is None else BranchName(parent),
            origin=origin,
            head=origin,
            state=BranchState.PARKED,
            created_at=datetime.now(UTC),
        )

    def _make(
        self,
        label: str,
        kind: CheckpointKind,
        branch: BranchName,
        parent: CheckpointId | None,
        note: str = "",
        moment: Moment | None = None,
    ) -> Checkpoint:
        return Checkpoint(
            id=CheckpointId(secrets.token_hex(6)),
            session=None if kind is CheckpointKind.BASE else SESSION,
            parent=parent,
            label=label,
            note=note,
            kind=kind,
            branch=branch,
            created_at=datetime.now(UTC),
            key="fake",
            cost=CheckpointCost(
                paused_ms=46.2, memory_bytes=38_000_000, shared_bytes=1_100_000_000
            ),
            moment=moment or Moment(),
        )

    def _note(self, op: str, branch: FakeBranch, point: Checkpoint | None, total_ms: float) -> None:
        done = Operation(
            session=self.record.id,
            op=op,
            branch=branch.name,
            checkpoint=None if point is None else point.id,
            at=datetime.now(UTC),
            total_ms=total_ms,
            phases_ms=dict(branch.cost.phases_ms) if op in ("fork", "rollback") else {},
        )
        self._done.append(done)
        self.changes.note()
