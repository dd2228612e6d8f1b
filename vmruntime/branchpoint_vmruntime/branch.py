"""A branch that this process owns: its record, and while it is live its machine."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from branchpoint_vmruntime.branch_seam import MemoryUse, WakeCost
from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.errors import MachineError, UsageError
from branchpoint_vmruntime.incarnation import Awake
from branchpoint_vmruntime.lineage import BranchName, BranchRecord, BranchState, CheckpointId
from branchpoint_vmruntime.link import KernelLink
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.results import CommandResult, RunResult
from branchpoint_vmruntime.stream_link import StreamLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A branch's machine, with what ends it and gives back what it uses."""

    machine: Machine
    awake: Awake
    cost: WakeCost
    woken_from: CheckpointId
    stack: AsyncExitStack

    async def end(self) -> None:
        """End the machine and release its image; whoever is called off meanwhile waits for that."""
        ending = asyncio.create_task(self.stack.aclose())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise


class OwnedBranch:
    """Implements `session.Branch`. Only its session changes it."""

    def __init__(self, record: BranchRecord, live: Live | None = None) -> None:
        self._record = record
        self._live = live

    @property
    def record(self) -> BranchRecord:
        """As it is on record, but for a machine that has just been lost."""
        return replace(self._record, state=self.state)

    @property
    def name(self) -> BranchName:
        """Its name."""
        return self._record.name

    @property
    def index(self) -> int:
        """0 for the first branch of a session, then the number it got among its siblings."""
        return self._record.index

    @property
    def state(self) -> BranchState:
        """What has become of it.

        LOST as soon as its machine, or the kernel in it, has ended by itself.
        """
        if self._record.state is BranchState.LIVE and (
            self._live is None or self._live.machine.failure is not None
        ):
            return BranchState.LOST
        return self._record.state

    @property
    def live(self) -> Live | None:
        """Its machine, dead or alive; None if it has none."""
        return self._live

    @property
    def machine(self) -> Machine:
        """Its machine, which must be there."""
        return self.require_live().machine

    def require_live(self) -> Live:
        """Its machine with all that belongs to it, which must be there."""
        if self._live is None:
            raise UsageError(
                f"branch {self.name!r} is {self.state} and has no machine",
                hint=f"`%switch {self.name}` wakes it from its last checkpoint",
            )
        return self._live

    @property
    def kernel(self) -> KernelLink:
        """The channel to its kernel."""
        return self.machine.kernel

    @property
    def calls(self) -> CallQueue:
        """What processes in its machine ask for."""
        return self.machine.calls

    @property
    def streams(self) -> StreamLink:
        """The streams to and from what runs in its machine."""
        return self.machine.streams

    @property
    def cost(self) -> WakeCost:
        """What its present machine took to wake."""
        return self._live.cost if self._live else WakeCost(awake_ms=0.0)

    def memory(self) -> MemoryUse | None:
        """Host memory it takes now; None without a machine, or with one that is just ending."""
        # Asked from a thread: it may be given another meanwhile.
        live = self._live
        if live is None or not live.machine.alive:
            return None
        try:
            own, shared = live.machine.memory()
        except OSError:
            # It gives its memory back before it can be seen to have ended.
            return None
        return MemoryUse(own_bytes=own, shared_bytes=shared)

    async def run(self, code: str, *, timeout_s: float = 3600.0) -> RunResult:
        """Run code in its kernel and wait for the result."""
        return await self.machine.run(code, timeout_s=timeout_s)

    async def execute(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command in its machine and wait for it."""
        return await self.machine.execute(argv, stdin=stdin, timeout_s=timeout_s)

    async def variables(
        self, *, repr_limit: int, timeout_s: float
    ) -> Sequence[Mapping[str, Any]] | None:
        """What the user's variables are; None if this kernel cannot say."""
        return await self.machine.variables(repr_limit=repr_limit, timeout_s=timeout_s)

    async def interrupt(self) -> None:
        """SIGINT to the kernel's process group."""
        await self.machine.interrupt()

    async def ping(self, *, timeout_s: float) -> None:
        """Ask for a sign of life."""
        failure = self.machine.failure
        if failure is not None:
            raise failure
        await self.machine.ping(timeout_s=timeout_s)

    def become(self, record: BranchRecord, live: Live | None) -> Live | None:
        """Take a new record and machine; the machine it had before, for the caller to end."""
        before, self._record, self._live = self._live, record, live
        return before

    def advance(self, head: CheckpointId) -> None:
        """Note its newest checkpoint."""
        self._record = replace(self._record, head=head)

    def usable(self) -> bool:
        """Whether its machine can be asked for anything."""
        return self._live is not None and self._live.machine.failure is None

    def why_unusable(self) -> MachineError | None:
        """Why not, if its machine has failed."""
        return self._live.machine.failure if self._live else None
