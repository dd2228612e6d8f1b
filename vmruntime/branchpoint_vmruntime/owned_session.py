"""A session this process owns: where machines, checkpoints and the books change together."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

from branchpoint_vmruntime.baking import Baking
from branchpoint_vmruntime.borrowers import Borrowers
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.capacity import Capacity
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.idling import Idling
from branchpoint_vmruntime.lending import Lending
from branchpoint_vmruntime.lineage import (
    BranchState,
    Cell,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Moment,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import branch_names, check_label, check_note
from branchpoint_vmruntime.on_record import OnRecord
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.pausing import Pausing, require_not_dropped
from branchpoint_vmruntime.preparing import Preparing
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.reports import (
    ForkReport,
    KeepReport,
    PauseReport,
    ResumeReport,
    RollbackReport,
)
from branchpoint_vmruntime.restore import SavedMachine
from branchpoint_vmruntime.rolling_back import RollingBack
from branchpoint_vmruntime.saving import Saving
from branchpoint_vmruntime.session import (
    MAX_FORKS,
    Answer,
    Turn,
    Witness,
    nobody_hears,
    nothing_died,
    nothing_known,
    nothing_ran,
    nothing_runs,
    nothing_undone,
)
from branchpoint_vmruntime.testimony import hear
from branchpoint_vmruntime.waking import Waking, end_machine
from branchpoint_vmruntime.workshop import Workshop


class OwnedSession(OnRecord):
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
        borrowers: Borrowers,
    ) -> None:
        self.witness: Witness = nothing_known
        self.turn: Turn = nullcontext
        self.executes: Callable[[str], bool] = nothing_runs
        self.on_resumed: Callable[[ResumeReport], None] = nobody_hears
        self.ran: Callable[[str], Sequence[Cell]] = nothing_ran
        self.undone: Callable[[], Sequence[Cell]] = nothing_undone
        self.died: Callable[[], Sequence[str]] = nothing_died
        self.changes = register.changes
        self.answers: dict[str, Answer] = {}
        self.outside = outside
        super().__init__(register)
        self._workshop = workshop
        self._saving = Saving(register, workshop, self._witness_of)
        self.notices = self._saving.notices
        self._waking = Waking(register, workshop, outside)
        self._rolling_back = RollingBack(register, self._saving, self._waking)
        self._pausing = Pausing(register, self._saving, self._waking)
        self._peeks: list[OwnedBranch] = []
        self._preparing = Preparing(register, workshop)
        self._capacity = Capacity(register, workshop, outside, budgets, self._with_peeks)
        self._idling = Idling(self, idle)
        busy = asyncio.Lock()
        self.image = Baking(register, workshop, self._waking, outside, busy, self.awake)
        self._lending = Lending(register, self._pausing, borrowers, busy)
        self._alone, self.came_back = self._lending.alone, self._lending.came_back
        register.awake = self._awake_for_caller
        outside.forwards.on_change = self.changes.note

    @property
    def ready_for(self) -> CheckpointId | None:
        """The checkpoint a machine stands by for, if one does."""
        return self._workshop.ready_for

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
        async with self._alone():
            of, chosen = self._here(branch), check_label(label) if label else None
            saved = await self._saving.save(of, kind, chosen, note=check_note(note))
            await self._preparing.begin(saved if of is self.current else self._preparing.wanted)
            return saved

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from it, as often as wanted; it runs on."""
        async with self._alone():
            return await self._saving.save(self._here(branch), CheckpointKind.FORK_POINT)

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
        async with self._alone():
            began = time.monotonic()
            self._capacity.require_forks(count)
            parent = self._of(branch) if start else self._here(branch)
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
        async with self._alone():
            going = self._here(branch)
            require_not_dropped(going)
            goal = self._resolve(target, going)
            report = await self._rolling_back.go_back(going, goal, safety=safety)
            await self._preparing.begin(goal if going is self.current else self._preparing.wanted)
            return report

    async def switch(self, name: str) -> OwnedBranch:
        """Continue as another branch; one without a machine is woken from its last checkpoint."""
        async with self._alone():
            return await self._switch(name)

    async def keep(self, name: str) -> KeepReport:
        """Continue as a branch; save and end every other live one, so that it can be reopened.

        One that cannot be saved runs on.
        """
        async with self._alone():
            began = time.monotonic()
            kept = await self._switch(name)
            others = [b for b in self.branches() if b is not kept and b.live is not None]
            parked, failures = await self._pausing.park_all(others)
            total_ms = _since(began)
            self._register.note("keep", kept.name, None, total_ms, {})
            return KeepReport(
                branch=kept, parked=tuple(parked), failures=tuple(failures), total_ms=total_ms
            )

    async def drop(self, names: Sequence[str]) -> list[OwnedBranch]:
        """Give branches up. Their checkpoints stay."""
        async with self._alone():
            given_up = [self._here(name) for name in names]
            if self.current in given_up:
                raise _is_current(self.current.name, "`%switch` to another branch first")
            for branch in given_up:
                await self._waking.retire(branch, BranchState.DROPPED)
                self._register.note("drop", branch.name, None, 0.0, {})
                await self.outside.dropped(branch.name)
            return given_up

    async def pause(self, name: str | None = None) -> PauseReport:
        """Save a branch, the current one if none is named, and end its machine until it is wanted.

        What stands by for the current one ends as well: its memory and processor are given back.
        What its next machine maps is made in the background, on the disk.
        """
        async with self._alone():
            branch = self._here(name)
            self._require_no_cell(branch)
            report = await self._pausing.pause(branch)
            if branch is self.current:
                await self._preparing.begin(None)
                await self._workshop.close()
            self._preparing.bring_together(report.checkpoint)
            return report

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        async with self._alone():
            return await self._pausing.resume(self._here(name))

    async def lend(self, name: str, key: str, *, again: bool = False) -> SessionRecord:
        """Save a branch that is not current, and have it carry on in the session of that key."""
        async with self._alone():
            branch = self._here(name)
            if branch is self.current:
                raise _is_current(name, "`%switch` to another branch first")
            self._require_no_cell(branch)
            return await self._lending.lend(branch, as_key(key), again=again)

    async def awake(self, name: str | None = None) -> OwnedBranch:
        """The branch, the current one if none is named; one that is paused is resumed first.

        UsageError if it has no machine for another reason, which says what gives it one.
        """
        branch = self._of(name)
        if branch.state in (BranchState.PAUSED, BranchState.LENT):
            async with self._alone():
                # Another may have asked for it at the same time.
                self._lending.here(branch)
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
        async with self._alone():
            self._capacity.require_peek()
            looked_into = await self._waking.peek(checkpoint)
        self._peeks.append(looked_into)
        try:
            yield looked_into
        finally:
            self._peeks.remove(looked_into)
            await end_machine(looked_into)

    async def pin(self, checkpoint: Checkpoint, *, pinned: bool = True) -> None:
        """Keep a checkpoint whatever else goes, or no longer."""
        async with self._alone():
            self._register.pin(checkpoint, pinned=pinned)

    async def annotate(
        self, checkpoint: Checkpoint, *, label: str | None = None, note: str | None = None
    ) -> Checkpoint:
        """Give a checkpoint another label or note, or both; what is None stays. As it is now."""
        chosen = None if label is None else check_label(label)
        said = None if note is None else check_note(note)
        async with self._alone():
            return self._register.annotate(checkpoint, label=chosen, note=said)

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Remove checkpoints with their files; those that went."""
        async with self._alone():
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
        self._lending.look()
        if not self._register.carries_on:
            await self._waking.start()
        elif self.loan is not None and self.loan.resumes:
            # Where the lender has gone on from the same moment, the two are forks of it.
            await self._pausing.resume(self._here(None), reseed=not self.loan.lent)
        self._lending.start()
        self._idling.start()

    async def close(self) -> None:
        """End every machine. What was checkpointed stays."""
        await self._lending.stop()
        await self._idling.stop()
        await self._preparing.stop()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._workshop.close)
            live = [branch for branch in self.branches() if branch.live is not None]
            for branch in (*live, *self._peeks):
                stack.push_async_callback(end_machine, branch)
            for branch in live:
                await self._waking.retire(branch, BranchState.LOST)

    def _resolve(self, target: Checkpoint | str | None, branch: OwnedBranch) -> Checkpoint:
        return target if isinstance(target, Checkpoint) else self._register.find(target, branch)

    async def _origin(self, start: Checkpoint | str | None, parent: OwnedBranch) -> Checkpoint:
        if start is not None:
            return self._resolve(start, parent)
        if parent.state is BranchState.PAUSED:
            # Its very last moment is saved already.
            return self._resolve(parent.record.head, parent)
        return await self._saving.save(parent, CheckpointKind.FORK_POINT)

    def _here(self, name: str | None) -> OwnedBranch:
        return self._lending.here(self._of(name))

    def _require_no_cell(self, branch: OwnedBranch) -> None:
        if self.executes(branch.name):
            raise UsageError(
                f"a cell runs in branch {branch.name!r}", hint="wait for it, or interrupt it"
            )

    def _with_peeks(self) -> list[OwnedBranch]:
        return [*self.branches(), *self._peeks]

    async def _witness_of(self, branch: str) -> Moment:
        incarnation = self.branch(branch).machine.identity.incarnation
        # At rest: what that machine does outside from now on is not in the checkpoint's past.
        position = self.outside.ledger.position()
        moment = await hear(self.witness, branch)
        return replace(moment, incarnation=incarnation, position=position)

    async def _switch(self, name: str) -> OwnedBranch:
        branch = self._here(name)
        if branch.state is not BranchState.LIVE:
            await self._pausing.resume(branch)
        self._register.continue_as(branch)
        return branch


def _is_current(name: str, hint: str) -> UsageError:
    return UsageError(f"{name!r} is the current branch: the session continues as it", hint=hint)


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)
