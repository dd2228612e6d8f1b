"""A session this process owns: where machines, checkpoints and the books change together."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

from branchpoint_vmruntime.baking import Baking
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.capacity import Capacity
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.idling import Idling
from branchpoint_vmruntime.lineage import (
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import branch_names, check_label
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.pausing import Pausing, require_not_dropped
from branchpoint_vmruntime.preparing import Preparing
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.restore import SavedMachine
from branchpoint_vmruntime.rolling_back import RollingBack
from branchpoint_vmruntime.saving import Saving
from branchpoint_vmruntime.session import (
    MAX_FORKS,
    ForkReport,
    KeepReport,
    PauseReport,
    ResumeReport,
    RollbackReport,
    Turn,
    Witness,
    nobody_hears,
    nothing_known,
    nothing_runs,
)
from branchpoint_vmruntime.testimony import hear
from branchpoint_vmruntime.waking import Waking, end_machine
from branchpoint_vmruntime.workshop import Workshop


class OwnedSession:
    """Implements `session.Session`.

    Made by `open_session`; operations on it are done one after another.
    """

    def __init__(
        self,
        register: Register,
        workshop: Workshop,
        outside: Outside,
        budgets: Budgets,
        idle: IdlePause,
    ) -> None:
        self.witness: Witness = nothing_known
        self.turn: Turn = nullcontext
        self.executes: Callable[[str], bool] = nothing_runs
        self.on_resumed: Callable[[ResumeReport], None] = nobody_hears
        self.outside = outside
        self._register = register
        self._workshop = workshop
        self._saving = Saving(register, workshop, self._witness_of)
        self._waking = Waking(register, workshop, outside)
        self._rolling_back = RollingBack(register, self._saving, self._waking)
        self._pausing = Pausing(register, self._saving, self._waking)
        self._peeks: list[OwnedBranch] = []
        self._preparing = Preparing(register, workshop)
        self._capacity = Capacity(register, workshop, outside, budgets, self._with_peeks)
        self._idling = Idling(self, idle)
        self._busy = asyncio.Lock()
        self.image = Baking(register, workshop, self._waking, outside, self._busy, self.awake)
        register.awake = self._awake_for_caller

    @property
    def record(self) -> SessionRecord:
        """Which session this is."""
        return self._register.record

    @property
    def current(self) -> OwnedBranch:
        """The branch that operations without a name are about."""
        return self._register.current

    def branches(self) -> list[OwnedBranch]:
        """Every branch on record, in order of making."""
        return self._register.branches()

    def branch(self, name: str) -> OwnedBranch:
        """The branch of that name."""
        return self._register.branch(name)

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session and the base they root in, oldest first."""
        return self._register.checkpoints()

    def path(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoint itself, its parent, and so on to the root."""
        return list(self._register.tree().path(checkpoint.id))

    @property
    def ready_for(self) -> CheckpointId | None:
        """The checkpoint a machine stands by for, if one does."""
        return self._workshop.ready_for

    def operations(self) -> list[Operation]:
        """Everything done so far, with what it cost."""
        return self._register.operations()

    def find(self, name: str | None, *, branch: str | None = None) -> Checkpoint:
        """By label, or by the start of an id; None: the last of a branch, or of the current one."""
        return self._register.find(name, self._of(branch))

    def room(self) -> int:
        """How many machines more the host's memory and the budgets have room for now."""
        return self._capacity.room().machines

    async def checkpoint(
        self,
        label: str | None = None,
        *,
        note: str = "",
        branch: str | None = None,
        kind: CheckpointKind = CheckpointKind.USER,
    ) -> Checkpoint:
        """Save a branch, the current one if none is named; it runs on."""
        async with self._busy:
            of, chosen = self._of(branch), check_label(label) if label else None
            saved = await self._saving.save(of, kind, chosen, note=note)
            await self._preparing.begin(saved if of is self.current else self._preparing.wanted)
            return saved

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from it, as often as wanted; it runs on."""
        async with self._busy:
            return await self._saving.save(self._of(branch), CheckpointKind.FORK_POINT)

    async def fork(
        self,
        count: int,
        *,
        start: Checkpoint | str | None = None,
        names: Sequence[str] = (),
        same_random: bool = False,
        branch: str | None = None,
        first_index: int = 1,
    ) -> ForkReport:
        """Live branches from a checkpoint, or from this very moment of a branch.

        Each comes up or fails by itself.
        """
        if count > MAX_FORKS:
            raise UsageError(
                f"{count} forks are more than this can hold; the limit is {MAX_FORKS}",
                hint=f"ask for 1 to {MAX_FORKS}, such as `%fork 3`",
            )
        async with self._busy:
            began = time.monotonic()
            self._capacity.require_forks(count)
            parent = self._of(branch)
            new = branch_names(count, names, self._register.taken_names(), parent=parent.name)
            origin = await self._origin(start, parent)
            made, failures = await self._waking.fork(
                new, origin, parent=parent.name, first_index=first_index, reseed=not same_random
            )
            total_ms = _since(began)
            for fork in made:
                self._register.note(
                    "fork", fork.name, origin, fork.cost.awake_ms, fork.cost.phases_ms
                )
            await self._preparing.again()
            return ForkReport(
                origin=origin,
                branches=tuple(made),
                failures=tuple(failures),
                reseeded=any(fork.live and fork.live.awake.reseeded for fork in made),
                total_ms=total_ms,
            )

    async def rollback(
        self,
        target: Checkpoint | str | None = None,
        *,
        safety: bool = True,
        branch: str | None = None,
    ) -> RollbackReport:
        """A branch, the current one if none is named, goes back.

        The machine it has is ended only once the other is awake.
        """
        async with self._busy:
            going = self._of(branch)
            require_not_dropped(going)
            goal = self._resolve(target, going)
            report = await self._rolling_back.go_back(going, goal, safety=safety)
            await self._preparing.begin(goal if going is self.current else self._preparing.wanted)
            return report

    async def switch(self, name: str) -> OwnedBranch:
        """Continue as another branch; one without a machine is woken from its last checkpoint."""
        async with self._busy:
            return await self._switch(name)

    async def keep(self, name: str) -> KeepReport:
        """Continue as a branch; save and end every other live one, so that it can be reopened."""
        async with self._busy:
            began = time.monotonic()
            kept = await self._switch(name)
            others = [b for b in self.branches() if b is not kept and b.live is not None]
            outcomes = await asyncio.gather(
                *(self._pausing.park(branch) for branch in others), return_exceptions=True
            )
            if failures := [outcome for outcome in outcomes if outcome is not None]:
                # Those that could not be saved live on: nothing is ended that was not kept.
                raise failures[0]
            total_ms = _since(began)
            self._register.note("keep", kept.name, None, total_ms, {})
            return KeepReport(branch=kept, parked=tuple(others), total_ms=total_ms)

    async def drop(self, names: Sequence[str]) -> list[OwnedBranch]:
        """Give branches up. Their checkpoints stay."""
        async with self._busy:
            given_up = [self.branch(name) for name in names]
            if self.current in given_up:
                raise UsageError(
                    f"{self.current.name!r} is the branch this notebook continues as",
                    hint="`%switch` to another branch first",
                )
            for branch in given_up:
                await self._waking.retire(branch, BranchState.DROPPED)
                self._register.note("drop", branch.name, None, 0.0, {})
                await self.outside.dropped(branch.name)
            return given_up

    async def pause(self, name: str | None = None) -> PauseReport:
        """Save a branch, the current one if none is named, and end its machine until it is wanted.

        What stands by for the current one ends as well: its memory and processor are given back.
        """
        async with self._busy:
            branch = self._of(name)
            if self.executes(branch.name):
                raise UsageError(
                    f"a cell runs in branch {branch.name!r}", hint="wait for it, or interrupt it"
                )
            report = await self._pausing.pause(branch)
            if branch is self.current:
                await self._preparing.begin(None)
                await self._workshop.close()
            return report

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        async with self._busy:
            return await self._pausing.resume(self._of(name))

    async def awake(self, name: str | None = None) -> OwnedBranch:
        """The branch, the current one if none is named; one that is paused is resumed first.

        UsageError if it has no machine for another reason, which says what gives it one.
        """
        branch = self._of(name)
        if branch.state is BranchState.PAUSED:
            async with self._busy:
                # Another may have asked for it at the same time.
                if branch.state is BranchState.PAUSED:
                    self.on_resumed(await self._pausing.resume(branch))
        if branch.state is not BranchState.LIVE:
            raise self._pausing.why_asleep(branch)
        return branch

    async def _awake_for_caller(self, name: str) -> None:
        """As `awake`, for who came from outside and is no operation of the driver's."""
        if self.branch(name).state is BranchState.PAUSED:
            async with self.turn():
                await self.awake(name)

    @asynccontextmanager
    async def peek(self, checkpoint: Checkpoint) -> AsyncGenerator[OwnedBranch]:
        """A machine woken from a checkpoint to look into it; it ends on leaving.

        Only the waking keeps other operations waiting.
        """
        async with self._busy:
            self._capacity.require_peek()
            looked_into = await self._waking.peek(checkpoint)
        self._peeks.append(looked_into)
        try:
            yield looked_into
        finally:
            self._peeks.remove(looked_into)
            await end_machine(looked_into)

    def pins(self) -> set[CheckpointId]:
        """The checkpoints of the session that are to be kept whatever else goes."""
        return self._register.pins()

    async def pin(self, checkpoint: Checkpoint, *, pinned: bool = True) -> None:
        """Keep a checkpoint whatever else goes, or no longer."""
        async with self._busy:
            self._register.pin(checkpoint, pinned=pinned)

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Remove checkpoints with their files; those that went."""
        async with self._busy:
            await self._preparing.begin(None)
            gone = self._register.remove(checkpoints)
            await self._workshop.remove(gone)
            return gone

    async def materialise(self, checkpoint: Checkpoint) -> SavedMachine:
        """Make a checkpoint's memory mappable as one file, and say where its parts are.

        For tools that start machines of their own; the image may go once the session does more.
        """
        return await self._workshop.saved_machine(self._register.tree(), checkpoint)

    async def start(self) -> None:
        """Wake the first branch, unless it carries on as one. Called once, by `open_session`."""
        if not self._register.carries_on:
            await self._waking.start()
        self._idling.start()

    async def close(self) -> None:
        """End every machine. What was checkpointed stays."""
        await self._idling.stop()
        await self._preparing.stop()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._workshop.close)
            live = [branch for branch in self.branches() if branch.live is not None]
            for branch in (*live, *self._peeks):
                stack.push_async_callback(end_machine, branch)
            for branch in live:
                await self._waking.retire(branch, BranchState.LOST)

    def _of(self, name: str | None) -> OwnedBranch:
        return self.current if name is None else self.branch(name)

    def _resolve(self, target: Checkpoint | str | None, branch: OwnedBranch) -> Checkpoint:
        return target if isinstance(target, Checkpoint) else self._register.find(target, branch)

    async def _origin(self, start: Checkpoint | str | None, parent: OwnedBranch) -> Checkpoint:
        if start is not None:
            return self._resolve(start, parent)
        if parent.state is BranchState.PAUSED:
            # Its very last moment is saved already.
            return self._resolve(parent.record.head, parent)
        return await self._saving.save(parent, CheckpointKind.FORK_POINT)

    def _with_peeks(self) -> list[OwnedBranch]:
        return [*self.branches(), *self._peeks]

    async def _witness_of(self, branch: str) -> Moment:
        incarnation = self.branch(branch).machine.identity.incarnation
        # At rest: what that machine does outside from now on is not in the checkpoint's past.
        position = self.outside.ledger.position()
        moment = await hear(self.witness, branch)
        return replace(moment, incarnation=incarnation, position=position)

    async def _switch(self, name: str) -> OwnedBranch:
        branch = self.branch(name)
        if branch.state is not BranchState.LIVE:
            await self._pausing.resume(branch)
        self._register.continue_as(branch)
        return branch


@asynccontextmanager
async def open_session(
    register: Register,
    workshop: Workshop,
    outside: Outside,
    budgets: Budgets | None = None,
    idle: IdlePause | None = None,
) -> AsyncGenerator[OwnedSession]:
    """A session with its first machine awake, or one that carries on; no machine outlives it."""
    session = OwnedSession(register, workshop, outside, budgets or Budgets(), idle or IdlePause())
    try:
        await session.start()
        yield session
    finally:
        await session.close()


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)
