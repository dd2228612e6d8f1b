"""A session of the runtime's own over a workshop that makes no machines and fails when told to."""

import asyncio
import os
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tests.support.fake_outside import edge_in
from tests.support.fake_streams import FakeChannel

from branchpoint_vmruntime.borrowers import Borrowers
from branchpoint_vmruntime.branch import Live
from branchpoint_vmruntime.branch_seam import WakeCost
from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.checkpoint import CheckpointOrder, Draft
from branchpoint_vmruntime.errors import MachineEndedError, MachineError, StorageError
from branchpoint_vmruntime.incarnation import Awake, Identity
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.machine import Machine, nobody_minds
from branchpoint_vmruntime.opening import open_session
from branchpoint_vmruntime.outside.view import View
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.restore import SavedMachine
from branchpoint_vmruntime.storage.retention import StoreBudgets
from branchpoint_vmruntime.testimony import hear
from branchpoint_vmruntime.workshop import Workshop

FULL = StorageError("the disk is full", hint="free some space there")
BASE = Checkpoint(
    id=CheckpointId("ba5eba5eba5e"),
    session=None,
    parent=None,
    label="base",
    note="",
    kind=CheckpointKind.BASE,
    branch=BranchName("main"),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    key="fake",
    cost=CheckpointCost(),
)


def _tell_nobody(_number: int, _answer: Mapping[str, Any]) -> None:
    """Stands in for a guest that gets answers."""


@dataclass(eq=False)
class FakeMachine:
    """Runs, stands still, or has ended; says so."""

    identity: Identity
    woken_from: CheckpointId
    failure: MachineError | None = None
    stopped: bool = False
    saved: int = 0
    silent: bool = False
    own_bytes: int = 9 << 20
    crossed: int = 0
    is_asked: bool = False
    run_on_error: MachineError | None = None
    on_failure: Callable[[], None] = nobody_minds
    heard: CallQueue = field(default_factory=lambda: CallQueue(_tell_nobody))
    streamed: FakeChannel = field(default_factory=FakeChannel)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not isinstance(self.failure, MachineEndedError)

    @property
    def streams(self) -> FakeChannel:
        """Its streams."""
        return self.streamed

    @property
    def runs(self) -> bool:
        """Whether it is as it should be."""
        return self.failure is None and not self.stopped

    @property
    def calls(self) -> CallQueue:
        """The calls out of it."""
        return self.heard

    @property
    def pid(self) -> int:
        """A process that is there."""
        return os.getpid()

    def traffic(self) -> tuple[int, ...]:
        """As much as the test says."""
        return (self.crossed,)

    def memory(self) -> tuple[int, int]:
        """As much as the test says it has for itself."""
        return self.own_bytes, 412 << 20

    async def ping(self, *, timeout_s: float) -> None:
        """A sign of life, unless it is silent."""
        if self.silent:
            raise MachineError(f"no answer within {timeout_s:g} s")

    def overlays_saved(self) -> None:
        """Count the checkpoints that hold what it has on its disk."""
        self.saved += 1

    async def run_on(self) -> None:
        """Go on after a capture."""
        if self.run_on_error:
            raise self.run_on_error
        self.stopped = False

    async def end(self) -> None:
        """End it."""
        self.heard.fail(MachineEndedError("the machine has ended"))
        await self.streamed.end()
        self.failure = self.failure or MachineEndedError("the machine has ended")


@dataclass(eq=False)
class FakeWorkshop(Workshop):
    """Keeps what it made in lists. A test sets what is to go wrong."""

    machines: list[FakeMachine] = field(default_factory=list[FakeMachine])
    files: set[CheckpointId] = field(default_factory=set[CheckpointId])
    wake_errors: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    kind_errors: dict[CheckpointKind, BaseException] = field(
        default_factory=dict[CheckpointKind, BaseException]
    )
    wake_holds: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    awake: defaultdict[str, asyncio.Event] = field(
        default_factory=lambda: defaultdict(asyncio.Event)
    )
    has_room: bool = True
    brought_together: list[CheckpointId] = field(default_factory=list[CheckpointId])
    asked_together: list[CheckpointId] = field(default_factory=list[CheckpointId])
    image_error: BaseException | None = None
    image_hold: asyncio.Event | None = None
    left_standing: asyncio.Event = field(default_factory=asyncio.Event)
    host_bytes: int = 64 << 30
    draft_error: BaseException | None = None
    publish_error: BaseException | None = None
    reseeded: dict[str, bool] = field(default_factory=dict[str, bool])

    def living(self) -> list[FakeMachine]:
        """The machines that have not ended."""
        return [machine for machine in self.machines if machine.alive]

    async def close(self) -> None:
        """Nothing stands by."""

    async def stand_by(self, tree: Tree, checkpoint: Checkpoint) -> None:
        """Nothing stands by."""

    def has_room_to_spare(self) -> bool:
        """What the test says."""
        return self.has_room

    async def saved_machine(self, tree: Tree, checkpoint: Checkpoint) -> SavedMachine:
        """Its memory in one file, after what holds that up, unless it is to fail."""
        self.asked_together.append(checkpoint.id)
        if self.image_hold is not None:
            await self.image_hold.wait()
        if self.image_error:
            raise self.image_error
        assert tree.checkpoint(checkpoint.id)
        self.brought_together.append(checkpoint.id)
        return cast("SavedMachine", None)

    def available_bytes(self) -> int:
        """What the test says the host has."""
        return self.host_bytes

    async def wake(
        self, tree: Tree, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
    ) -> Live:
        """A machine, after what holds it up, unless it is to fail."""
        if hold := self.wake_holds.get(identity.branch):
            await hold.wait()
        errors = (self.wake_errors.get(identity.branch), self.kind_errors.get(checkpoint.kind))
        for error in filter(None, errors):
            raise error
        assert checkpoint.id == BASE.id or checkpoint.id in self.files
        assert tree.checkpoint(checkpoint.id) == checkpoint
        made = FakeMachine(identity, checkpoint.id)
        self.machines.append(made)
        self.awake[identity.branch].set()
        self.reseeded[identity.branch] = reseed
        stack = AsyncExitStack()
        stack.push_async_callback(made.end)
        return Live(
            machine=cast("Machine", made),
            awake=Awake(nonce="c0ffee", reseeded=("random",) if reseed else (), phases_ms={}),
            cost=WakeCost(awake_ms=100.0),
            woken_from=checkpoint.id,
            stack=stack,
        )

    async def draft(self, live: Live, order: CheckpointOrder, *, resume: bool) -> Draft:
        """A capture; the machine stands still after it if it is not to resume."""
        if self.draft_error:
            raise self.draft_error
        machine = cast("FakeMachine", live.machine)
        assert machine.runs
        machine.stopped = not resume
        moment = await hear(order.witness, order.branch)
        identity = CheckpointId(secrets.token_hex(6))
        self.files.add(identity)
        if not resume:
            self.left_standing.set()
        now = datetime.now(UTC)
        return cast("Draft", _Draft(id=identity, order=order, moment=moment, started_at=now))

    async def publish(self, pending: Draft, live: Live, tree: Tree) -> Checkpoint:
        """A checkpoint."""
        if self.publish_error:
            self.files.remove(pending.id)
            raise self.publish_error
        order = pending.order
        assert tree.checkpoint(order.parent)
        return Checkpoint(
            id=pending.id,
            session=order.session,
            parent=order.parent,
            label=order.label,
            note=order.note,
            kind=order.kind,
            branch=order.branch,
            created_at=pending.started_at,
            key="fake",
            cost=CheckpointCost(paused_ms=46.2, total_ms=60.0),
            moment=cast("_Draft", pending).moment,
        )

    def missing(self, tree: Tree, checkpoint: Checkpoint) -> list[Checkpoint]:
        """Those without files."""
        return [it for it in tree.path(checkpoint.id) if it.id not in self.files]

    def abandon(self, pending: Draft) -> None:
        """Remove a capture."""
        self.files.remove(pending.id)

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Remove checkpoints' files."""
        for checkpoint in checkpoints:
            self.discard(checkpoint)

    def discard(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint."""
        self.files.remove(checkpoint.id)


@dataclass(frozen=True)
class _Draft:
    id: CheckpointId
    order: CheckpointOrder
    moment: Moment
    started_at: datetime


class FullJournal(Journal):
    """A journal that from a moment on has no room for some kinds of rows."""

    full: frozenset[str] = frozenset()

    def _require_room(self, kind: str) -> None:
        if kind in self.full:
            raise StorageError("the disk is full", hint="free some space there")

    def add_checkpoint(self, checkpoint: Checkpoint, *, advance: BranchName | None) -> None:
        """Needs room for checkpoints."""
        self._require_room("checkpoints")
        super().add_checkpoint(checkpoint, advance=advance)

    def put_branches(self, records: Iterable[BranchRecord]) -> None:
        """Needs room for branches."""
        self._require_room("branches")
        super().put_branches(records)

    def put_branch(self, record: BranchRecord) -> None:
        """Needs room for branches."""
        self._require_room("branches")
        super().put_branch(record)


@dataclass(frozen=True)
class Office:
    """A session, and the workshop and the journal behind it."""

    session: OwnedSession
    workshop: FakeWorkshop
    journal: FullJournal
    view: View
    register: Register

    def machine(self, name: str) -> FakeMachine:
        """The machine of a branch."""
        return cast("FakeMachine", self.session.branch(name).machine)


@asynccontextmanager
async def office(
    folder: Path,
    workshop: FakeWorkshop | None = None,
    *,
    full: frozenset[str] = frozenset(),
    budgets: Budgets | None = None,
    store: StoreBudgets | None = None,
    idle: IdlePause | None = None,
    fresh: bool = True,
    session: SessionRecord | None = None,
    loan: Loan | None = None,
    borrowers: Borrowers | None = None,
) -> AsyncGenerator[Office]:
    """A session with its first machine awake, in a folder that may hold earlier ones.

    With `fresh` false it carries on as an earlier one was left.
    """
    now = datetime.now(UTC)
    record = session or SessionRecord(id=SessionId("s-1"), key="notebook", created_at=now)
    with FullJournal.open(folder / "lineage.db") as journal:
        if journal.session_by_key(record.key) is None:
            journal.add_session(record)
        if journal.checkpoint(BASE.id) is None:
            journal.add_checkpoint(BASE, advance=None)
        register = Register(record, journal, BASE, store, fresh=fresh, loan=loan)
        journal.full = full
        behind = workshop or FakeWorkshop()
        behind.files |= {checkpoint.id for checkpoint in register.checkpoints()}
        async with AsyncExitStack() as stack:
            ledger = stack.enter_context(closing(Ledger.open(folder / "ledger.db")))
            view = register.view()
            outside = await stack.enter_async_context(edge_in(folder, ledger, view))
            opened = await stack.enter_async_context(
                open_session(register, behind, outside, budgets, idle, borrowers)
            )
            yield Office(opened, behind, journal, view, register)


def snapshot(it: Office) -> object:
    """All of a session that a failed operation must leave as it was."""
    return (
        [branch.record for branch in it.session.branches()],
        it.session.current.name,
        it.session.checkpoints(),
        it.workshop.living(),
        set(it.workshop.files),
    )
