"""A session whose machines are stock ipykernels on this host, behind the real guest relay.

Checkpoint, fork and rollback are simulated: a checkpoint keeps what of the user's namespace can be
pickled and the In[] number, and a wake starts another ipykernel and puts them back.
"""

import asyncio
import json
import secrets
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.support.guest_kernel import GuestKernel

from branchpoint_vmruntime.errors import (
    GuestSilentError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import branch_names, check_label, resolve
from branchpoint_vmruntime.session import (
    MAX_FORKS,
    Branch,
    ForkReport,
    KeepReport,
    MemoryUse,
    RollbackReport,
    WakeCost,
)

SESSION = SessionId("s-fake")
SAVE = """
def _save():
    import base64, pickle
    shell, kept = get_ipython(), {}
    for name, value in shell.user_ns.items():
        if name[0] != "_" and name not in shell.user_ns_hidden and type(value) in (int, str, list):
            kept[name] = value
    print(base64.b64encode(pickle.dumps((kept, shell.execution_count))).decode(), end="")
_save()
del _save
"""
LOAD = """
def _load():
    import base64, pickle
    shell = get_ipython()
    kept, shell.execution_count = pickle.loads(base64.b64decode({saved!r}))
    shell.user_ns.update(kept)
_load()
del _load
"""


class FakeChannel:
    """A KernelChannel to a GuestKernel."""

    def __init__(self, kernel: GuestKernel, incarnation: str) -> None:
        self.guest = kernel
        self.incarnation = incarnation

    async def send(self, parts: Sequence[bytes]) -> None:
        """To the kernel."""
        await self.guest.send(parts)

    async def receive(self) -> list[bytes]:
        """From the kernel."""
        return await self.guest.receive()


class FakeBranch:
    """A Branch."""

    def __init__(self, record: BranchRecord) -> None:
        self.record = record
        self.channel: FakeChannel | None = None
        self.silent = False

    @property
    def name(self) -> BranchName:
        """Its name."""
        return self.record.name

    @property
    def state(self) -> BranchState:
        """What has become of it; LOST as soon as its machine has ended by itself."""
        if self.channel is not None and not self.channel.guest.alive:
            return BranchState.LOST
        return self.record.state

    @property
    def kernel(self) -> FakeChannel:
        """Its channel."""
        if self.channel is None:
            raise UsageError(f"branch {self.name!r} has no machine")
        return self.channel

    @property
    def usable(self) -> bool:
        """Whether its machine answers."""
        return self.channel is not None and self.channel.guest.alive and not self.silent

    @property
    def cost(self) -> WakeCost:
        """Made up."""
        return WakeCost(awake_ms=100.0, phases_ms={"spawn": 30.0, "load": 3.0, "wake": 67.0})

    def memory(self) -> MemoryUse | None:
        """Made up."""
        return MemoryUse(own_bytes=9_000_000, shared_bytes=412_000_000) if self.channel else None

    async def interrupt(self) -> None:
        """SIGINT, as guestd does it."""
        self.kernel.guest.signal(signal.SIGINT)

    async def ping(self, *, timeout_s: float) -> None:
        """Answers unless told to be silent."""
        if self.silent:
            raise GuestSilentError("ping", timeout_s, Path("console.log"))

    async def run(self, code: str) -> str:
        """Run code through the relay's own request; what it printed."""
        guest = self.kernel.guest
        await guest.order("run " + json.dumps({"id": 1, "code": code, "timeout_s": 10}))
        while (answer := await guest.answer())[0] != "ran":
            pass
        result = json.loads(answer[1])
        assert result["status"] == "ok", result
        return result["text"]

    async def wake(self, head: CheckpointId, saved: str | None) -> None:
        """Start a kernel and put back what was saved."""
        kernel = GuestKernel()
        await kernel.open()
        self.channel = FakeChannel(kernel, secrets.token_hex(8))
        self.record = replace(self.record, state=BranchState.LIVE, head=head)
        await self._introduce(kernel)
        if saved is not None:
            await self.run(LOAD.format(saved=saved))

    async def end(self, state: BranchState) -> None:
        """End its machine."""
        channel, self.channel = self.channel, None
        self.record = replace(self.record, state=state)
        if channel is not None:
            await channel.guest.close()

    async def _introduce(self, kernel: GuestKernel) -> None:
        record = self.record
        facts = (self.kernel.incarnation, self.name, str(record.index), SESSION, "")
        reader, writer = await asyncio.open_unix_connection(str(kernel.folder / "hook"))
        writer.write(f"awake {chr(9).join(facts)}\n".encode())
        assert (await reader.readline()).startswith(b"awake ")
        writer.close()
        await writer.wait_closed()


class FakeSession:
    """A Session. `async with` gives it its first machine and ends all machines at last."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.record = SessionRecord(id=SESSION, key="fake", created_at=now)
        base = self._make("base", CheckpointKind.BASE, BranchName(""), None)
        self._points = [base]
        self._saved: dict[CheckpointId, str | None] = {base.id: None}
        self._branches: dict[str, FakeBranch] = {}
        self.current = self._new_branch("main", 0, None, base.id)

    async def __aenter__(self) -> "FakeSession":
        await self.current.wake(self._points[0].id, None)
        return self

    async def __aexit__(self, *_: object) -> None:
        for branch in self._branches.values():
            await branch.end(BranchState.PARKED)

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

    def find(self, name: str | None) -> Checkpoint:
        """One of them."""
        if name is not None:
            return resolve(name, self._points)
        head = resolve(self.current.record.head, self._points)
        if head.kind is CheckpointKind.BASE:
            raise UsageError(f"branch {self.current.name!r} has no checkpoint to go back to yet")
        return head

    def operations(self) -> list[Operation]:
        """Nothing is noted."""
        return []

    async def checkpoint(self, label: str | None = None, *, note: str = "") -> Checkpoint:
        """Save the current branch."""
        chosen = check_label(label) if label else f"c{len(self._points)}"
        return await self._save(chosen, CheckpointKind.USER, note)

    async def fork(
        self,
        count: int,
        *,
        start: Checkpoint | str | None = None,
        names: Sequence[str] = (),
        same_random: bool = False,
    ) -> ForkReport:
        """Start kernels with what was saved."""
        if count > MAX_FORKS:
            raise UsageError(f"{count} forks are more than this can hold")
        chosen = branch_names(count, names, self._taken(), parent=self.current.name)
        origin = await self._fork_point() if start is None else self._resolve(start)
        made = [
            self._new_branch(name, place, self.current.name, origin.id)
            for place, name in enumerate(chosen, 1)
        ]
        await asyncio.gather(*(branch.wake(origin.id, self._saved[origin.id]) for branch in made))
        return ForkReport(
            origin=origin,
            branches=tuple(made),
            failures=(),
            reseeded=not same_random,
            total_ms=120.0,
        )

    async def rollback(
        self, target: Checkpoint | str | None = None, *, safety: bool = True
    ) -> RollbackReport:
        """Replace the current kernel."""
        point = self._resolve(target)
        saved = None
        if safety and self.current.usable:
            saved = await self._save(f"left-{len(self._points)}", CheckpointKind.SAFETY, "")
        await self.current.end(BranchState.PARKED)
        await self.current.wake(point.id, self._saved[point.id])
        self.current.silent = False
        return RollbackReport(
            branch=self.current,
            checkpoint=point,
            safety=saved,
            safety_note="" if saved else "not taken: --no-safety",
            total_ms=110.0,
            phases_ms={"wake": 100.0},
        )

    async def switch(self, name: str) -> FakeBranch:
        """Continue as another branch."""
        branch = self.branch(name)
        if branch.state is BranchState.DROPPED:
            raise UsageError(f"branch {name!r} was dropped")
        if branch.channel is None:
            head = branch.record.head
            await branch.wake(head, self._saved[head])
        self.current = branch
        return branch

    async def keep(self, name: str) -> KeepReport:
        """Continue as another branch and park the rest."""
        branch = await self.switch(name)
        others = [it for it in self._branches.values() if it is not branch and it.channel]
        for other in others:
            self.current = other
            point = await self._save(f"parked-{other.name}", CheckpointKind.PARKED, "")
            other.record = replace(other.record, head=point.id)
            await other.end(BranchState.PARKED)
        self.current = branch
        return KeepReport(branch=branch, parked=tuple(others), total_ms=50.0)

    async def drop(self, names: Sequence[str]) -> list[Branch]:
        """End branches."""
        branches = [self.branch(name) for name in names]
        if self.current in branches:
            raise UsageError(f"{self.current.name!r} is the current branch")
        for branch in branches:
            await branch.end(BranchState.DROPPED)
        return list[Branch](branches)

    def _resolve(self, target: Checkpoint | str | None) -> Checkpoint:
        return target if isinstance(target, Checkpoint) else self.find(target)

    def _taken(self) -> list[str]:
        return [n for n, it in self._branches.items() if it.state is not BranchState.DROPPED]

    def _new_branch(
        self, name: str, index: int, parent: str | None, origin: CheckpointId
    ) -> FakeBranch:
        record = BranchRecord(
            session=SESSION,
            name=BranchName(name),
            index=index,
            parent=None if parent is None else BranchName(parent),
            origin=origin,
            head=origin,
            state=BranchState.PARKED,
            created_at=datetime.now(UTC),
        )
        self._branches.pop(name, None)
        self._branches[name] = FakeBranch(record)
        return self._branches[name]

    def _make(
        self,
        label: str,
        kind: CheckpointKind,
        branch: BranchName,
        parent: CheckpointId | None,
        note: str = "",
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
        )

    async def _save(self, label: str, kind: CheckpointKind, note: str) -> Checkpoint:
        branch = self.current
        saved = await branch.run(SAVE)
        point = self._make(label, kind, branch.name, branch.record.head, note)
        self._points.append(point)
        self._saved[point.id] = saved
        branch.record = replace(branch.record, head=point.id)
        return point

    async def _fork_point(self) -> Checkpoint:
        return await self._save(f"fork-{len(self._points)}", CheckpointKind.FORK_POINT, "")
