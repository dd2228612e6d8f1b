"""One notebook's tree of checkpoints and branches, and what can be done with it."""

from asyncio import Event
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, overload

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionRecord,
)
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.results import CommandResult, RunResult
from branchpoint_vmruntime.start_image import StartImage
from branchpoint_vmruntime.streams import StreamChannel

# More at once than a host that runs notebooks can be expected to hold.
MAX_FORKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Host memory of one machine, in bytes.

    `own` is its alone, `shared` is mapped from a shared image.
    """

    own_bytes: int
    shared_bytes: int


class KernelChannel(Protocol):
    """Whole multipart messages to and from the kernel in one machine's incarnation.

    A message is `[channel, header, parent_header, metadata, content, *buffers]` in bytes, where
    channel is one of b"shell", b"control", b"stdin", b"iopub".
    """

    @property
    def incarnation(self) -> str:
        """The id of the waking this channel belongs to; it never changes on one channel."""
        ...

    async def send(self, parts: Sequence[bytes]) -> None:
        """Queue a message for the kernel. Raises MachineEndedError once the machine is gone."""
        ...

    async def receive(self) -> list[bytes]:
        """The next message.

        Raises MachineEndedError, or KernelDiedError, saying in words why it ended.
        """
        ...


class WakeReason(StrEnum):
    """Why a machine was woken, as what runs in it can read."""

    START = "start"
    FORK = "fork"
    ROLLBACK = "rollback"
    REOPEN = "reopen"
    RESUME = "resume"
    PEEK = "peek"
    BAKE = "bake"


@dataclass(frozen=True, slots=True, eq=False)
class GuestCall:
    """Something a process in a machine asks of whoever drives the session; it waits for the answer.

    `request` is JSON the guest made up: check it. `gone` is set once the caller waits no more.
    """

    id: int
    request: Mapping[str, Any]
    gone: Event = field(default_factory=Event)


class CallChannel(Protocol):
    """The calls out of one machine's incarnation."""

    async def next(self) -> GuestCall:
        """The next call. Raises MachineEndedError once no more can come."""
        ...

    async def answer(self, call: GuestCall, answer: Mapping[str, Any]) -> None:
        """Give the caller its answer, as JSON. Nothing happens if it waits no more."""
        ...


Witness = Callable[[str], Awaitable[Moment]]
Turn = Callable[[], AbstractAsyncContextManager[None]]


class Branch(Protocol):
    """A named line of work; live while it has a machine."""

    @property
    def record(self) -> BranchRecord: ...
    @property
    def name(self) -> BranchName: ...
    @property
    def state(self) -> BranchState: ...
    @property
    def kernel(self) -> KernelChannel:
        """The channel of its present machine; UsageError if it has none."""
        ...

    @property
    def calls(self) -> CallChannel:
        """What processes in its present machine ask for; UsageError if it has none."""
        ...

    @property
    def streams(self) -> StreamChannel:
        """The streams to and from its present machine; UsageError if it has none."""
        ...

    @property
    def cost(self) -> "WakeCost": ...
    def memory(self) -> MemoryUse | None: ...
    async def interrupt(self) -> None:
        """SIGINT to the kernel's process group."""
        ...

    async def ping(self, *, timeout_s: float) -> None:
        """Ask the machine for a sign of life; GuestSilentError or MachineEndedError otherwise."""
        ...

    async def run(self, code: str, *, timeout_s: float = 3600.0) -> RunResult:
        """Run code in its kernel, past all that waits in the shell's queue on this side."""
        ...

    async def execute(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command among the user's processes and wait for it."""
        ...

    async def variables(
        self, *, repr_limit: int, timeout_s: float
    ) -> Sequence[Mapping[str, Any]] | None:
        """What the user's variables are, as JSON; None if this kernel cannot say.

        `repr_limit` is in characters. GuestSilentError if it takes longer, as when a repr hangs.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeCost:
    """What waking a machine took, in milliseconds."""

    awake_ms: float
    phases_ms: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class ForkFailure:
    """One fork that did not come up."""

    name: BranchName
    error: BranchpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkReport(Sequence[Branch]):
    """What a fork made.

    The branches that came up (it iterates over them) and those that did not.
    """

    origin: Checkpoint
    branches: tuple[Branch, ...]
    failures: tuple[ForkFailure, ...]
    reseeded: bool
    total_ms: float

    def __len__(self) -> int:
        return len(self.branches)

    @overload
    def __getitem__(self, index: int) -> Branch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Branch]: ...
    def __getitem__(self, index: int | slice) -> Branch | Sequence[Branch]:
        return self.branches[index]

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """What a rollback did. `safety` is the checkpoint of what was left, if one could be taken."""

    branch: Branch
    checkpoint: Checkpoint
    safety: Checkpoint | None
    safety_note: str
    total_ms: float
    phases_ms: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepReport:
    """What `keep` did: the branch this notebook continues as, and those saved and ended."""

    branch: Branch
    parked: tuple[Branch, ...]
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReport:
    """What pausing a branch did: the checkpoint it carries on from, the host memory given back."""

    branch: Branch
    checkpoint: Checkpoint
    freed_bytes: int
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReport:
    """What it took to give a branch its machine again, and for how many seconds it had none."""

    branch: Branch
    checkpoint: Checkpoint
    away_s: float
    total_ms: float
    phases_ms: dict[str, float]


async def nothing_known(_branch: str) -> Moment:
    """The witness of a session that nobody drives cell by cell."""
    return Moment()


def nothing_runs(_branch: str) -> bool:
    """Of a session that nobody drives cell by cell."""
    return False


def nobody_hears(_report: ResumeReport) -> None:
    """Of a session whose driver need not know of the machines there are."""


class Session(Protocol):
    """One notebook's tree.

    Operations are serialised; each leaves the lineage whole or untouched.

    `turn` surrounds whatever is done to the session that its driver did not ask for: what comes in
    at the control socket, and pauses of its own accord. The driver has it wait for its own
    operations, and takes up the machines there are afterwards. `executes` tells whether a cell runs
    on a branch, which is not paused then. `on_resumed` is told of each branch that got its machine
    again without having been asked for by `resume`.

    `witness` is asked, with a branch's name, what is executing there, for every checkpoint that is
    taken. It is asked while that machine is at rest, when every message of its kernel has arrived
    at the channel. A witness that fails or takes over 5 s is one that knows nothing.
    """

    witness: Witness
    turn: Turn
    executes: Callable[[str], bool]
    on_resumed: Callable[[ResumeReport], None]

    @property
    def outside(self) -> Outside:
        """Its edge: what may leave, what has left, what it cost."""
        ...

    @property
    def record(self) -> SessionRecord: ...
    @property
    def image(self) -> StartImage: ...
    @property
    def current(self) -> Branch: ...
    def branches(self) -> Sequence[Branch]:
        """Every branch on record, dropped ones too, in order of making."""
        ...

    def branch(self, name: str) -> Branch:
        """UnknownNameError if there is none."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session, the base first, oldest first."""
        ...

    def path(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoint itself, its parent, and so on to the root."""
        ...

    def find(self, name: str | None, *, branch: str | None = None) -> Checkpoint:
        """By label (the newest that bears it) or by the start of its id.

        None: the branch's last; without a branch, the current one's.
        """
        ...

    def room(self) -> int:
        """How many machines more the host's memory and the manifest's budgets have room for now."""
        ...

    def operations(self) -> list[Operation]: ...
    async def checkpoint(
        self,
        label: str | None = None,
        *,
        note: str = "",
        branch: str | None = None,
        kind: CheckpointKind = CheckpointKind.USER,
    ) -> Checkpoint:
        """Save a branch, the current one if none is named; it runs on."""
        ...

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from it, as often as wanted; it runs on."""
        ...

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

        They are numbered from `first_index`, as `branch.index` tells them. UsageError if there is
        not the room for them.
        """
        ...

    async def rollback(
        self,
        target: Checkpoint | str | None = None,
        *,
        safety: bool = True,
        branch: str | None = None,
    ) -> RollbackReport: ...
    async def switch(self, name: str) -> Branch:
        """Continue as another branch; a parked one is woken from its head."""
        ...

    async def keep(self, name: str) -> KeepReport: ...
    async def pause(self, name: str | None = None) -> PauseReport:
        """Save a branch, the current one if none is named, and end its machine until it is wanted.

        UsageError while a cell runs on it, and if it has no machine.
        """
        ...

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        ...

    async def awake(self, name: str | None = None) -> Branch:
        """The branch, the current one if none is named; one that is paused is resumed first."""
        ...

    def pins(self) -> set[CheckpointId]:
        """The checkpoints of the session that are to be kept whatever else goes."""
        ...

    async def pin(self, checkpoint: Checkpoint, *, pinned: bool = True) -> None:
        """Keep a checkpoint whatever else goes, or no longer."""
        ...

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Remove checkpoints with their files; those that went.

        One that others descend from, that a branch stands on or that is pinned stays.
        """
        ...

    async def drop(self, names: Sequence[str]) -> Sequence[Branch]: ...
    def peek(self, checkpoint: Checkpoint) -> AbstractAsyncContextManager[Branch]:
        """A machine woken from a checkpoint to look into it, named "peek"; it ends on leaving.

        It is on no record and is no branch of the session. Calls that wait in it go on waiting.
        """
        ...
