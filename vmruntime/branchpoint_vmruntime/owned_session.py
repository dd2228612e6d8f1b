"""A session this process owns: where machines, checkpoints and the books change together."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from branchpoint_vmruntime.branch import Live, OwnedBranch
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Operation,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import branch_names, check_label
from branchpoint_vmruntime.register import MAIN, Register
from branchpoint_vmruntime.restore import SavedMachine
from branchpoint_vmruntime.saving import Saving
from branchpoint_vmruntime.session import (
    MAX_FORKS,
    ForkFailure,
    ForkReport,
    KeepReport,
    RollbackReport,
)
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)


class OwnedSession:
    """Implements `session.Session`.

    Made by `open_session`; operations on it are done one after another.
    """

    def __init__(self, register: Register, workshop: Workshop) -> None:
        self._register = register
        self._workshop = workshop
        self._saving = Saving(register, workshop)
        self._wanted_next: Checkpoint | None = None
        self._preparing: asyncio.Task[None] | None = None
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

    @property
    def ready_for(self) -> CheckpointId | None:
        """The checkpoint a machine stands by for, if one does."""
        return self._workshop.ready_for

    def operations(self) -> list[Operation]:
        """Everything done so far, with what it cost."""
        return self._register.operations()

    def find(self, name: str | None) -> Checkpoint:
        """By label, or by the start of an id; None: the current branch's last."""
        return self._register.find(name)

    async def checkpoint(self, label: str | None = None, *, note: str = "") -> Checkpoint:
        """Save the current branch; it runs on."""
        async with self._busy:
            chosen = check_label(label) if label else self._register.next_label("checkpoint")
            saved = await self._saving.save(self.current, chosen, CheckpointKind.USER, note=note)
            await self._stand_by_for(saved)
            return saved

    async def fork(
        self,
        count: int,
        *,
        start: Checkpoint | str | None = None,
        names: Sequence[str] = (),
        same_random: bool = False,
    ) -> ForkReport:
        """Live branches from a checkpoint, or from this very moment.

        Each comes up or fails by itself.
        """
        if count > MAX_FORKS:
            raise UsageError(
                f"{count} forks are more than this can hold; the limit is {MAX_FORKS}",
                hint=f"ask for 1 to {MAX_FORKS}, such as `%fork 3`",
            )
        async with self._busy:
            began = time.monotonic()
            self._workshop.require_memory(count)
            taken = self._register.taken_names()
            new = branch_names(count, names, taken, parent=self.current.name)
            origin = self._resolve(start) if start is not None else await self._fork_point()
            woken = await self._wake_forks(new, origin, reseed=not same_random)
            made, failures = await self._sort_forks(new, origin, woken)
            total_ms = _since(began)
            for branch in made:
                self._register.note(
                    "fork", branch.name, origin, branch.cost.awake_ms, branch.cost.phases_ms
                )
            await self._stand_by_for(self._wanted_next)
            return ForkReport(
                origin=origin,
                branches=tuple(made),
                failures=tuple(failures),
                reseeded=not same_random,
                total_ms=total_ms,
            )

    async def rollback(
        self, target: Checkpoint | str | None = None, *, safety: bool = True
    ) -> RollbackReport:
        """The current branch goes back.

        The machine it has is ended only once the other is awake.
        """
        async with self._busy:
            began = time.monotonic()
            branch = self.current
            goal = self._resolve(target)
            waking = asyncio.create_task(self._wake(branch.name, branch.index, goal, reseed=False))
            pending, note = None, "not taken: --no-safety"
            record = replace(branch.record, head=goal.id, state=BranchState.LIVE)
            try:
                if safety:
                    pending, note = await self._saving.draft_safety(branch)
                live = await waking
                self._register.put(record)
            except BaseException:
                await _abandon(waking)
                await self._saving.let_run_on(branch, pending)
                raise
            awake_ms = _since(began)
            left = branch.live
            branch.become(record, live)
            saved = None
            try:
                if pending is not None and left is not None:
                    saved, note = await self._saving.publish_safety(pending, left)
            finally:
                if left is not None:
                    await left.end()
            total_ms = _since(began)
            phases = live.cost.phases_ms | {"until-awake": awake_ms}
            self._register.note("rollback", branch.name, goal, total_ms, phases)
            await self._stand_by_for(goal)
            return RollbackReport(
                branch=branch,
                checkpoint=goal,
                safety=saved,
                safety_note=note,
                total_ms=total_ms,
                phases_ms=phases,
            )

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
                await self._retire(branch, BranchState.DROPPED)
                self._register.note("drop", branch.name, None, 0.0, {})
            return given_up

    async def materialise(self, checkpoint: Checkpoint) -> SavedMachine:
        """Make a checkpoint's memory mappable as one file, and say where its parts are.

        For tools that start machines of their own; the image may go once the session does more.
        """
        return await self._workshop.saved_machine(self._register.tree(), checkpoint)

    async def start(self) -> None:
        """Wake the first branch, fresh from the base. Called once, by `open_session`."""
        live = await self._wake(MAIN, 0, self._register.base, reseed=True)
        record = self._register.new_record(MAIN, 0, parent=None, origin=self._register.base)
        async with _ended_unless_recorded([live]):
            self._register.add_first(OwnedBranch(record, live))
        self._register.note(
            "start", MAIN, self._register.base, live.cost.awake_ms, live.cost.phases_ms
        )

    async def close(self) -> None:
        """End every machine. What was checkpointed stays."""
        await self._stop_preparing()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._workshop.close)
            live = [branch for branch in self.branches() if branch.live is not None]
            for branch in live:
                stack.push_async_callback(self._end_machine, branch)
            for branch in live:
                await self._retire(branch, BranchState.LOST)

    async def _fork_point(self) -> Checkpoint:
        return await self._saving.save(
            self.current, self._register.next_label("fork"), CheckpointKind.FORK_POINT
        )

    async def _wake_forks(
        self, names: Sequence[BranchName], origin: Checkpoint, *, reseed: bool
    ) -> list[Live | BaseException]:
        """A machine for each name, all at once, or why there is none."""
        waking = [
            asyncio.create_task(self._wake(name, place, origin, reseed=reseed))
            for place, name in enumerate(names, 1)
        ]
        try:
            await asyncio.wait(waking)
        except BaseException:
            await asyncio.gather(*map(_abandon, waking))
            raise
        return [task.exception() or task.result() for task in waking]

    async def _sort_forks(
        self,
        names: Sequence[BranchName],
        origin: Checkpoint,
        woken: Sequence[Live | BaseException],
    ) -> tuple[list[OwnedBranch], list[ForkFailure]]:
        made: list[OwnedBranch] = []
        failures: list[ForkFailure] = []
        parent = self.current.name
        async with _ended_unless_recorded([live for live in woken if isinstance(live, Live)]):
            for place, (name, outcome) in enumerate(zip(names, woken, strict=True), 1):
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

    async def _wake(
        self, name: BranchName, index: int, checkpoint: Checkpoint, *, reseed: bool
    ) -> Live:
        identity = Identity.new(session=self.record.id, branch=name, index=index)
        return await self._workshop.wake(self._register.tree(), checkpoint, identity, reseed=reseed)

    async def _switch(self, name: str) -> OwnedBranch:
        branch = self.branch(name)
        if branch.state is BranchState.DROPPED:
            raise UsageError(
                f"branch {branch.name!r} was dropped",
                hint="fork it anew from one of its checkpoints: `%fork 1 --from LABEL`",
            )
        if branch.state is not BranchState.LIVE:
            await self._reopen(branch)
        self._register.continue_as(branch)
        return branch

    async def _reopen(self, branch: OwnedBranch) -> None:
        head = self._register.tree().checkpoint(branch.record.head)
        live = await self._wake(branch.name, branch.index, head, reseed=False)
        record = replace(branch.record, state=BranchState.LIVE)
        async with _ended_unless_recorded([live]):
            self._register.put(record)
        dead = branch.become(record, live)
        if dead is not None:
            await dead.end()
        self._register.note("reopen", branch.name, head, live.cost.awake_ms, live.cost.phases_ms)

    async def _park(self, branch: OwnedBranch) -> None:
        if not branch.usable():
            await self._retire(branch, BranchState.LOST)
            return
        await self._saving.save(
            branch, self._register.next_label(f"parked-{branch.name}"), CheckpointKind.PARKED
        )
        await self._retire(branch, BranchState.PARKED)

    async def _retire(self, branch: OwnedBranch, state: BranchState) -> None:
        record = replace(branch.record, state=state)
        self._register.put(record)
        await self._end_machine(branch)
        branch.become(record, None)

    async def _end_machine(self, branch: OwnedBranch) -> None:
        if branch.live is not None:
            await branch.live.end()

    def _resolve(self, target: Checkpoint | str | None) -> Checkpoint:
        return target if isinstance(target, Checkpoint) else self.find(target)

    async def _stand_by_for(self, checkpoint: Checkpoint | None) -> None:
        """Have a machine ready for what is most likely wanted next, without waiting for it."""
        await self._stop_preparing()
        self._wanted_next = checkpoint
        if checkpoint is not None:
            ready = self._workshop.stand_by(self._register.tree(), checkpoint)
            self._preparing = asyncio.create_task(ready, name="stand by")

    async def _stop_preparing(self) -> None:
        preparing, self._preparing = self._preparing, None
        if preparing is None:
            return
        preparing.cancel()
        await asyncio.wait([preparing])
        if not preparing.cancelled() and (error := preparing.exception()):
            log.warning("no machine could be made to stand by: %s", error, exc_info=error)


@asynccontextmanager
async def open_session(register: Register, workshop: Workshop) -> AsyncGenerator[OwnedSession]:
    """A session with its first machine awake; every machine ends on leaving."""
    session = OwnedSession(register, workshop)
    try:
        await session.start()
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def _ended_unless_recorded(machines: Sequence[Live]) -> AsyncGenerator[None]:
    """A machine that could not be put on record, as on a full disk, would be nobody's."""
    try:
        yield
    except BaseException:
        for live in machines:
            await live.end()
        raise


async def _abandon(waking: "asyncio.Task[Live]") -> None:
    waking.cancel()
    with contextlib.suppress(BaseException):
        await (await waking).end()


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)
