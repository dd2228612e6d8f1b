"""Gives branches their machines: woken under a fresh identity, put on record, ended."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from branchpoint_vmruntime.branch import Live, OwnedBranch
from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.errors import BranchpointError, DamagedError
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import BranchName, BranchState, Checkpoint, CheckpointId
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.outside.outside import Newcomer, Outside
from branchpoint_vmruntime.register import MAIN, Register
from branchpoint_vmruntime.reports import ForkFailure
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)

PEEK = BranchName("peek")


class Waking:
    """Joins the workshop, which makes machines, the register, which knows the branches, the edge.

    A machine that is only looked into has nothing to do with the outside. `not_started` is why the
    first machine did not come up from where it should have started.
    """

    def __init__(self, register: Register, workshop: Workshop, outside: Outside) -> None:
        self._register = register
        self._workshop = workshop
        self._outside = outside
        self.not_started: dict[CheckpointId, str] = {}

    async def wake(
        self,
        name: BranchName,
        index: int,
        checkpoint: Checkpoint,
        reason: WakeReason,
        *,
        parent: BranchName | None = None,
        reseed: bool = False,
    ) -> Live:
        """A machine from a checkpoint, the next incarnation of that branch.

        A fork begins with what its parent may do outside.
        """
        identity = Identity.new(
            session=self._register.record.id, branch=name, index=index, reason=reason
        )
        tree = self._register.tree()
        live = await self._workshop.wake(tree, checkpoint, identity, reseed=reseed)
        live.machine.on_failure = self._register.changes.note
        if reason is not WakeReason.PEEK:
            async with _ended_unless_recorded([live]):
                await self._outside.woken(
                    Newcomer(
                        machine=live.machine,
                        branch=name,
                        incarnation=identity.incarnation,
                        reason=reason,
                        checkpoint=checkpoint,
                        parent=parent,
                    )
                )
        return live

    async def start(self) -> None:
        """The session's first branch, fresh from where its fresh machines start."""
        loan, name = self._register.loan, self._register.first
        index = loan.index if loan else 0
        origin, live = await (self._fresh() if loan is None else self._lent(loan))
        record = self._register.new_record(name, index, parent=None, origin=origin)
        async with _ended_unless_recorded([live]):
            self._register.add_first(OwnedBranch(record, live))
        self._register.note("start", name, origin, live.cost.awake_ms, live.cost.phases_ms)

    async def _lent(self, loan: Loan) -> tuple[Checkpoint, Live]:
        """Another session's branch as it was lent: never something else in its place."""
        start = self._register.start()
        if start is None:
            raise DamagedError(
                f"the checkpoint of branch {loan.branch!r} that this notebook continues is gone",
                hint="open the branch again from its own notebook",
            )
        self._require_files(loan.branch, start)
        live = await self.wake(
            loan.branch, loan.index, start, WakeReason.REOPEN, reseed=not loan.lent
        )
        return start, live

    async def _fresh(self) -> tuple[Checkpoint, Live]:
        start, base = self._register.start(), self._register.base
        if start is not None:
            try:
                return start, await self.wake(MAIN, 0, start, WakeReason.START, reseed=True)
            except BranchpointError as error:
                self.not_started[start.id] = str(error)
                log.warning(
                    "the fresh machine starts from the base, and not from %r as it should: %s",
                    start.label,
                    error,
                )
        return base, await self.wake(MAIN, 0, base, WakeReason.START, reseed=True)

    async def fork(
        self,
        names: Sequence[BranchName],
        origin: Checkpoint,
        *,
        parent: BranchName,
        first_index: int,
        reseed: bool,
    ) -> tuple[list[OwnedBranch], list[ForkFailure]]:
        """A branch for each name, all woken at once; each comes up or fails by itself."""
        places = list(enumerate(names, first_index))
        waking = [
            asyncio.create_task(
                self.wake(name, place, origin, WakeReason.FORK, parent=parent, reseed=reseed)
            )
            for place, name in places
        ]
        try:
            await asyncio.wait(waking)
        except BaseException:
            await asyncio.gather(*map(abandon, waking))
            raise
        woken = [task.exception() or task.result() for task in waking]
        made: list[OwnedBranch] = []
        failures: list[ForkFailure] = []
        async with _ended_unless_recorded([live for live in woken if isinstance(live, Live)]):
            for (place, name), outcome in zip(places, woken, strict=True):
                match outcome:
                    case Live():
                        record = self._register.new_record(
                            name, place, parent=parent, origin=origin
                        )
                        made.append(OwnedBranch(record, outcome))
                    case BranchpointError():
                        failures.append(ForkFailure(name, outcome))
                    case _:
                        raise outcome
            self._register.add(made)
        return made, failures

    async def reopen(
        self, branch: OwnedBranch, reason: WakeReason, *, reseed: bool = False
    ) -> Checkpoint:
        """A machine for a branch that has none, from its last checkpoint, which this gives."""
        head = self._register.tree().checkpoint(branch.record.head)
        self._require_files(branch.name, head)
        live = await self.wake(branch.name, branch.index, head, reason, reseed=reseed)
        record = replace(branch.record, state=BranchState.LIVE)
        async with _ended_unless_recorded([live]):
            self._register.put(record)
        dead = branch.become(record, live)
        if dead is not None:
            await dead.end()
        self._register.note(reason, branch.name, head, live.cost.awake_ms, live.cost.phases_ms)
        return head

    def _require_files(self, name: str, head: Checkpoint) -> None:
        if missing := self._workshop.missing(self._register.tree(), head):
            names = ", ".join(f"{it.label!r} ({it.id})" for it in missing)
            raise DamagedError(
                f"branch {name!r} cannot carry on from {head.label!r}: files are gone of {names}",
                hint="`%checkpoints` lists those there are, and `%rollback` goes back to one",
            )

    async def peek(self, checkpoint: Checkpoint) -> OwnedBranch:
        """A machine to look into a checkpoint; on no record, so the caller must retire it."""
        live = await self.wake(PEEK, 0, checkpoint, WakeReason.PEEK)
        return OwnedBranch(self._register.new_record(PEEK, 0, parent=None, origin=checkpoint), live)

    async def retire(self, branch: OwnedBranch, state: BranchState) -> None:
        """Put on record what has become of a branch, and end its machine."""
        live = branch.live
        self.put(branch, state)
        if live is not None:
            await live.end()

    def put(self, branch: OwnedBranch, state: BranchState) -> None:
        """Put on record what has become of a branch; its machine is the caller's to end."""
        record = replace(branch.record, state=state)
        self._register.put(record)
        branch.become(record, None)


async def end_machine(branch: OwnedBranch) -> None:
    """End a branch's machine, if it has one; on record it stays as it is."""
    if branch.live is not None:
        await branch.live.end()


async def abandon(waking: "asyncio.Task[Live]") -> None:
    """Call a waking off, and end what may have come of it."""
    waking.cancel()
    with contextlib.suppress(BaseException):
        await (await waking).end()


@asynccontextmanager
async def _ended_unless_recorded(machines: Sequence[Live]) -> AsyncGenerator[None]:
    """A machine that could not be put on record, as on a full disk, would be nobody's."""
    try:
        yield
    except BaseException:
        for live in machines:
            await live.end()
        raise
