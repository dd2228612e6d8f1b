"""A session this process owns: where machines, checkpoints and the books change together."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.budget import Budgets, Room, room
from branchpoint_vmruntime.errors import UsageError
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
from branchpoint_vmruntime.pausing import Pausing
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

_LABELS = {CheckpointKind.USER: "checkpoint", CheckpointKind.FORK_POINT: "fork"}


class OwnedSession:
    """Implements `session.Session`.

    Made by `open_session`; operations on it are done one after another.
    """

    def __init__(
        self, register: Register, workshop: Workshop, outside: Outside, budgets: Budgets
    ) -> None:
        self.witness: Witness = nothing_known
        self.turn: Turn = nullcontext
        self.executes: Callable[[str], bool] = nothing_runs
        self.on_resumed: Callable[[ResumeReport], None] = nobody_hears
        self.outside = outside
        self._register = register
        self._workshop = workshop
        self._budgets = budgets
        self._saving = Saving(register, workshop, self._witness_of)
        self._waking = Waking(register, workshop, outside)
        self._rolling_back = RollingBack(register, self._saving, self._waking)
        self._pausing = Pausing(register, self._saving, self._waking)
        self._peeks: list[OwnedBranch] = []
        self._preparing = Preparing(register, workshop)
        self._busy = asyncio.Lock()

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
        return self._room(self._budgets).machines

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
            of = self._of(branch)
            saved = await self._save(of, kind, check_label(label) if label else None, note)
            await self._preparing.begin(saved if of is self.current else self._preparing.wanted)
            return saved

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from it, as often as wanted; it runs on."""
        async with self._busy:
            return await self._save(self._of(branch), CheckpointKind.FORK_POINT)

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
            self._room(self._budgets).require(count)
            self._require_forks(count)
            parent = self._of(branch)
            new = branch_names(count, names, self._register.taken_names(), parent=parent.name)
            origin = (
                await self._save(parent, CheckpointKind.FORK_POINT)
                if start is None
                else self._resolve(start, parent)
            )
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
            going = _not_dropped(self._of(branch))
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
                *(self._park(branch) for branch in others), return_exceptions=True
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

        What stands by for it ends as well: the memory and the processor are given back.
        """
        async with self._busy:
            branch = self._of(name)
            if self.executes(branch.name):
                raise UsageError(
                    f"a cell runs in branch {branch.name!r}", hint="wait for it, or interrupt it"
                )
            report = await self._pausing.pause(branch)
            await self._preparing.begin(None)
            await self._workshop.close()
            return report

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        async with self._busy:
            return await self._pausing.resume(self._of(name))

    async def awake(self, name: str | None = None) -> OwnedBranch:
        """The branch, the current one if none is named; one that is paused is resumed first."""
        branch = self._of(name)
        if branch.state is BranchState.PAUSED:
            async with self._busy:
                # Another may have asked for it at the same time.
                if branch.state is BranchState.PAUSED:
                    self.on_resumed(await self._pausing.resume(branch))
        return branch

    @asynccontextmanager
    async def peek(self, checkpoint: Checkpoint) -> AsyncGenerator[OwnedBranch]:
        """A machine woken from a checkpoint to look into it; it ends on leaving.

        Only the waking keeps other operations waiting.
        """
        async with self._busy:
            self._room(Budgets()).require(1)
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
            for checkpoint in gone:
                self._workshop.discard(checkpoint)
            return gone

    async def materialise(self, checkpoint: Checkpoint) -> SavedMachine:
        """Make a checkpoint's memory mappable as one file, and say where its parts are.

        For tools that start machines of their own; the image may go once the session does more.
        """
        return await self._workshop.saved_machine(self._register.tree(), checkpoint)

    async def start(self) -> None:
        """Wake the first branch, fresh from the base. Called once, by `open_session`."""
        await self._waking.start()

    async def close(self) -> None:
        """End every machine. What was checkpointed stays."""
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

    def _room(self, budgets: Budgets) -> Room:
        there = [b for b in (*self.branches(), *self._peeks) if b.live and b.live.machine.alive]
        # Asked only if it counts: to read what a process has for itself takes milliseconds.
        counts = budgets.memory_bytes is not None
        uses = [b.memory() for b in there] if counts else []
        return room(
            budgets,
            live=len(there),
            own_bytes=sum(use.own_bytes for use in uses if use),
            available_bytes=self._workshop.available_bytes(),
        )

    def _require_forks(self, count: int) -> None:
        if self.outside.spending.limits.forks is None:
            return
        made = sum(operation.op == "fork" for operation in self._register.operations())
        self.outside.spending.check_forks(made, count)

    async def _witness_of(self, branch: str) -> Moment:
        incarnation = self.branch(branch).machine.identity.incarnation
        # At rest: what that machine does outside from now on is not in the checkpoint's past.
        position = self.outside.ledger.position()
        moment = await hear(self.witness, branch)
        return replace(moment, incarnation=incarnation, position=position)

    async def _save(
        self, branch: OwnedBranch, kind: CheckpointKind, label: str | None = None, note: str = ""
    ) -> Checkpoint:
        prefix = _LABELS.get(kind, kind.value)
        chosen = label or self._register.next_label(prefix)
        return await self._saving.save(branch, chosen, kind, note=note)

    async def _switch(self, name: str) -> OwnedBranch:
        branch = self.branch(name)
        if branch.state is not BranchState.LIVE:
            await self._pausing.resume(branch)
        self._register.continue_as(branch)
        return branch

    async def _park(self, branch: OwnedBranch) -> None:
        if branch.usable():
            await self._pausing.put_away(branch, CheckpointKind.PARKED)
        else:
            await self._waking.retire(branch, BranchState.LOST)


@asynccontextmanager
async def open_session(
    register: Register, workshop: Workshop, outside: Outside, budgets: Budgets | None = None
) -> AsyncGenerator[OwnedSession]:
    """A session with its first machine awake; every machine ends on leaving."""
    session = OwnedSession(register, workshop, outside, budgets or Budgets())
    try:
        await session.start()
        yield session
    finally:
        await session.close()


def _not_dropped(branch: OwnedBranch) -> OwnedBranch:
    if branch.state is BranchState.DROPPED:
        raise UsageError(
            f"branch {branch.name!r} was dropped",
            hint="fork it anew from one of its checkpoints: `%fork 1 --from LABEL`",
        )
    return branch


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)
