"""A session whose machines are stock ipykernels on this host, behind the real guest relay.

Checkpoint, fork and rollback are simulated: a checkpoint keeps what of the user's namespace can be
pickled and the In[] number, and a wake starts another ipykernel and puts them back.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.fake_branch import FakeBranch, FakeInside
from tests.support.fake_image import FakeImage
from tests.support.fake_on_record import FakeOnRecord
from tests.support.fake_outside import FakeMachine, edge_in, incarnation_of

from branchpoint_vmruntime.branch_seam import Branch, WakeReason
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lending import is_elsewhere
from branchpoint_vmruntime.lineage import (
    BranchState,
    Cell,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import branch_names, check_label
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.outside.facts import OutsideSpec
from branchpoint_vmruntime.outside.outside import Newcomer, Outside, View
from branchpoint_vmruntime.reports import (
    ForkReport,
    KeepReport,
    ParkFailure,
    PauseReport,
    ResumeReport,
    RollbackReport,
)
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


class FakeSession(FakeOnRecord):
    """A Session. `async with` gives it its first machine and ends all machines at last.

    With `keeps_variables` false a checkpoint asks nothing of the kernel, which may be busy.
    `machines` is how many it has room for; `fitted` are those of its branches, as its edge sees
    them; `save_errors` is why a branch cannot be saved.
    """

    def __init__(self, spec: OutsideSpec | None = None) -> None:
        super().__init__()
        self.witness: Witness = nothing_known
        self.turn: Turn = nullcontext
        self.ran: Callable[[str], Sequence[Cell]] = nothing_ran
        self.undone: Callable[[], Sequence[Cell]] = nothing_undone
        self.died: Callable[[], Sequence[str]] = nothing_died
        self.loan: Loan | None = None
        self.answers: dict[str, Answer] = {}
        self.came_back: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self.executes: Callable[[str], bool] = nothing_runs
        self.on_resumed: Callable[[ResumeReport], None] = nobody_hears
        self.inside = FakeInside()
        self.keeps_variables = True
        self.save_errors: dict[str, BranchpointError] = {}
        self.machines = MAX_FORKS + 1
        (base,) = self._points
        self.image = FakeImage(base)
        self._saved: dict[CheckpointId, str | None] = {base.id: None}
        self._peeks: list[FakeBranch] = []
        self._busy = asyncio.Lock()
        self._spec = spec or OutsideSpec()
        self.fitted: dict[str, FakeMachine] = {}
        self.current = self._new_branch("main", 0, None, base.id)
        self._stack = AsyncExitStack()
        self._outside: Outside | None = None

    @property
    def outside(self) -> Outside:
        """Its edge, once it has been entered."""
        assert self._outside is not None
        return self._outside

    async def __aenter__(self) -> "FakeSession":
        folder = Path(self._stack.enter_context(TemporaryDirectory()))
        ledger = self._stack.enter_context(closing(Ledger.open(folder / "ledger.db")))
        edge = edge_in(folder, ledger, self._view(), self._spec)
        self._outside = await self._stack.enter_async_context(edge)
        await self._wake(self.current, self._points[0], WakeReason.START)
        return self

    async def __aexit__(self, *_: object) -> None:
        for branch in (*self._branches.values(), *self._peeks):
            await branch.end(BranchState.PARKED)
        await self._stack.aclose()

    def _view(self) -> View:
        def incarnation(name: str) -> str:
            channel = self._branches[name].channel if name in self._branches else None
            return channel.incarnation if channel else ""

        return View(
            session=self.record.id,
            branch=lambda: str(self.current.name),
            head=lambda name: self._branches[name].record.head if name in self._branches else "",
            incarnation=incarnation,
            streams=lambda name: self.branch(name).streams,
            checkpoints=self.checkpoints,
            own_bytes=dict[str, int],
            awake=self._awake_for_caller,
            paused=lambda name: self.branch(name).state is BranchState.PAUSED,
        )

    def room(self) -> int:
        """As many as the test says, less those there are."""
        there = [it for it in (*self._branches.values(), *self._peeks) if it.channel]
        return max(0, self.machines - len(there))

    async def checkpoint(
        self,
        label: str | None = None,
        *,
        note: str = "",
        branch: str | None = None,
        kind: CheckpointKind = CheckpointKind.USER,
    ) -> Checkpoint:
        """Save a branch."""
        async with self._busy:
            prefix = "auto" if kind is CheckpointKind.AUTO else "checkpoint"
            chosen = check_label(label) if label else self._next_label(prefix)
            return await self._save(self._of(branch), chosen, kind, note)

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from."""
        async with self._busy:
            return await self._fork_point(self._of(branch))

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
        """Start kernels with what was saved."""
        if count > MAX_FORKS:
            raise UsageError(f"{count} forks are more than this can hold")
        async with self._busy:
            parent = self._of(branch)
            chosen = branch_names(count, names, self._taken(), parent=parent.name)
            if count > (room := self.room()):
                raise UsageError(f"there is room for {room} machines more, not {count}")
            origin = await self._fork_point(parent) if start is None else self._resolve(start)
            made = [
                self._new_branch(name, place, parent.name, origin.id)
                for place, name in enumerate(chosen, first_index)
            ]
            await asyncio.gather(
                *(self._wake(it, origin, WakeReason.FORK, parent.name) for it in made)
            )
            for it in made:
                self._note("fork", it, origin, 120.0)
            return ForkReport(
                origin=origin,
                branches=tuple(made),
                failures=(),
                reseeded=not same_random,
                total_ms=120.0,
            )

    async def rollback(
        self,
        target: Checkpoint | str | None = None,
        *,
        safety: bool = True,
        branch: str | None = None,
    ) -> RollbackReport:
        """Replace a branch's kernel."""
        async with self._busy:
            going = self._not_dropped(self._of(branch))
            point = self._resolve(target, going.name)
            saved = None
            if safety and going.usable:
                label = self._next_label("before-rollback")
                saved = await self._save(going, label, CheckpointKind.SAFETY)
            await going.end(BranchState.PARKED)
            await self._wake(going, point, WakeReason.ROLLBACK)
            going.silent = False
            self._note("rollback", going, point, 110.0)
            return RollbackReport(
                branch=going,
                checkpoint=point,
                safety=saved,
                safety_note="" if saved else "not taken: --no-safety",
                total_ms=110.0,
                phases_ms={"wake": 100.0},
            )

    async def switch(self, name: str) -> FakeBranch:
        """Continue as another branch."""
        async with self._busy:
            return await self._switch(name)

    async def keep(self, name: str) -> KeepReport:
        """Continue as another branch and park the rest."""
        async with self._busy:
            branch = await self._switch(name)
            others = [it for it in self._branches.values() if it is not branch and it.channel]
            parked: list[FakeBranch] = []
            failures: list[ParkFailure] = []
            for other in others:
                label = self._next_label(f"parked-{other.name}")
                try:
                    await self._save(other, label, CheckpointKind.PARKED)
                except BranchpointError as error:
                    failures.append(ParkFailure(other.name, error))
                    continue
                await other.end(BranchState.PARKED)
                parked.append(other)
            return KeepReport(
                branch=branch, parked=tuple(parked), failures=tuple(failures), total_ms=50.0
            )

    async def pause(self, name: str | None = None) -> PauseReport:
        """Keep what can be kept, and end its kernel."""
        async with self._busy:
            branch = self._of(name)
            if self.executes(branch.name):
                raise UsageError(f"a cell runs in branch {branch.name!r}")
            if branch.state is BranchState.PAUSED:
                raise UsageError(f"branch {branch.name!r} is paused already")
            if branch.channel is None:
                raise UsageError(f"branch {branch.name!r} has no machine")
            label = self._next_label(f"paused-{branch.name}")
            saved = await self._save(branch, label, CheckpointKind.PAUSED)
            await branch.end(BranchState.PAUSED)
            self._note("pause", branch, saved, 90.0)
            return PauseReport(branch=branch, checkpoint=saved, freed_bytes=64 << 20, total_ms=90.0)

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Start a kernel with what was kept."""
        async with self._busy:
            return await self._resume(self._not_dropped(self._of(name)))

    async def awake(self, name: str | None = None) -> FakeBranch:
        """The branch, with a kernel again if it was paused."""
        branch = self._of(name)
        if branch.state is BranchState.LENT:
            raise is_elsewhere(branch.name, self.key_of(branch.record.lent_to or SessionId("")))
        if branch.state is BranchState.PAUSED:
            async with self._busy:
                if branch.state is BranchState.PAUSED:
                    self.on_resumed(await self._resume(branch))
        if branch.state is not BranchState.LIVE:
            raise UsageError(
                f"branch {branch.name!r} is {branch.state} and has no machine",
                hint=f"`%switch {branch.name}` wakes it from its last checkpoint",
            )
        return branch

    async def _awake_for_caller(self, name: str) -> None:
        if self.branch(name).state is BranchState.PAUSED:
            async with self.turn():
                await self.awake(name)

    async def lend(self, name: str, key: str, *, again: bool = False) -> SessionRecord:
        """Nobody is there to have it."""
        raise UsageError(f"branch {name!r} cannot be lent to {key!r}, now or {again}")

    async def drop(self, names: Sequence[str]) -> list[Branch]:
        """End branches."""
        async with self._busy:
            branches = [self.branch(name) for name in names]
            if self.current in branches:
                raise UsageError(f"{self.current.name!r} is the current branch")
            for branch in branches:
                await branch.end(BranchState.DROPPED)
                await self.outside.dropped(branch.name)
                self.changes.note()
            return list[Branch](branches)

    @asynccontextmanager
    async def peek(self, checkpoint: Checkpoint) -> AsyncGenerator[FakeBranch]:
        """A kernel with what was saved, on no record."""
        branch = FakeBranch(self._record("peek", 0, None, checkpoint.id), self.inside)
        self._peeks.append(branch)
        try:
            await branch.wake(checkpoint.id, self._saved[checkpoint.id], WakeReason.PEEK)
            yield branch
        finally:
            self._peeks.remove(branch)
            await branch.end(BranchState.DROPPED)

    async def _resume(self, branch: FakeBranch) -> ResumeReport:
        if branch.channel is not None:
            raise UsageError(f"branch {branch.name!r} is not paused")
        paused = branch.state is BranchState.PAUSED
        point = self._resolve(branch.record.head)
        await self._wake(branch, point, WakeReason.RESUME if paused else WakeReason.REOPEN)
        return ResumeReport(
            branch=branch,
            checkpoint=point,
            away_s=(datetime.now(UTC) - point.created_at).total_seconds(),
            total_ms=110.0,
            phases_ms={"wake": 100.0},
        )

    async def _switch(self, name: str) -> FakeBranch:
        branch = self._not_dropped(self.branch(name))
        if branch.channel is None:
            await self._wake(branch, self._resolve(branch.record.head), WakeReason.REOPEN)
        self.current = branch
        self.record = replace(self.record, current=branch.name)
        self.changes.note()
        return branch

    async def _wake(
        self, branch: FakeBranch, point: Checkpoint, reason: WakeReason, parent: str | None = None
    ) -> None:
        await branch.wake(point.id, self._saved[point.id], reason)
        machine = self.fitted[branch.name] = FakeMachine(branch)
        newcomer = Newcomer(
            machine=machine,
            branch=branch.name,
            incarnation=machine.incarnation,
            reason=reason,
            checkpoint=point,
            parent=parent,
        )
        await self.outside.woken(newcomer)

    def _new_branch(
        self, name: str, index: int, parent: str | None, origin: CheckpointId
    ) -> FakeBranch:
        self._branches.pop(name, None)
        record = self._record(name, index, parent, origin)
        self._branches[name] = FakeBranch(record, self.inside)
        return self._branches[name]

    async def _save(
        self, branch: FakeBranch, label: str, kind: CheckpointKind, note: str = ""
    ) -> Checkpoint:
        if branch.name in self.save_errors:
            raise self.save_errors[branch.name]
        saved = await branch.save() if self.keeps_variables else None
        await branch.come_to_rest()
        moment = replace(
            await hear(self.witness, branch.name),
            incarnation=incarnation_of(branch),
            position=self.outside.ledger.position(),
        )
        point = self._make(label, kind, branch.name, branch.record.head, note, moment)
        self._points.append(point)
        self._saved[point.id] = saved
        branch.stand_on(point.id)
        self._note("checkpoint", branch, point, point.cost.total_ms)
        return point

    async def _fork_point(self, branch: FakeBranch) -> Checkpoint:
        return await self._save(branch, self._next_label("fork"), CheckpointKind.FORK_POINT)
