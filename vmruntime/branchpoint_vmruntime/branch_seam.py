"""A branch as whoever drives its session sees it: on record, with its machine, if it has one."""

from asyncio import Event
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from branchpoint_vmruntime.lineage import BranchName, BranchRecord, BranchState
from branchpoint_vmruntime.results import CommandResult, RunResult
from branchpoint_vmruntime.streams import StreamChannel


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeCost:
    """What waking a machine took, in milliseconds."""

    awake_ms: float
    phases_ms: dict[str, float] = field(default_factory=dict[str, float])


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
    def cost(self) -> WakeCost: ...
    def memory(self) -> MemoryUse | None:
        """Host memory it takes now; None without a machine, or with one that is just ending."""
        ...

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
