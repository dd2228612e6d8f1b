"""A branch whose machine is a stock ipykernel on this host, behind the real guest relay."""

import asyncio
import json
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.support import fake_streams
from tests.support.guest_kernel import GuestKernel

from branchpoint_vmruntime.branch_seam import MemoryUse, WakeCost, WakeReason
from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.errors import GuestSilentError, MachineEndedError, UsageError
from branchpoint_vmruntime.lineage import BranchName, BranchRecord, BranchState, CheckpointId
from branchpoint_vmruntime.results import CommandResult, RunResult

REST_S = 2.0
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


class FakeCalls(CallQueue):
    """A CallChannel whose guest is a test: it asks, and finds what it was answered."""

    def __init__(self) -> None:
        super().__init__(self._take_answer)
        self._numbers = count(1)
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._news = asyncio.Event()

    def ask(self, request: Mapping[str, Any]) -> int:
        """A call out of the guest; its number."""
        number = next(self._numbers)
        self.take({"op": "call", "id": number, "request": dict(request)})
        return number

    async def answered(self, number: int) -> Mapping[str, Any]:
        """What a call was answered, once it was."""
        while number not in self._answers:
            self._news.clear()
            await self._news.wait()
        return self._answers[number]

    def _take_answer(self, number: int, answer: Mapping[str, Any]) -> None:
        self._answers[number] = json.loads(json.dumps(answer))
        self._news.set()


class FakeInside:
    """What branches answer about their insides. A test says it, by branch or by the checkpoint."""

    def execute(self, branch: "FakeBranch", argv: Sequence[str], stdin: str) -> CommandResult:
        """What a command gives."""
        return CommandResult(status=0, stdout="", stderr="")

    def variables(self, branch: "FakeBranch") -> Sequence[Mapping[str, Any]] | None:
        """What the user's variables are."""
        return None


class FakeBranch:
    """A Branch."""

    def __init__(self, record: BranchRecord, inside: FakeInside) -> None:
        self.record = record
        self.inside = inside
        self.channel: FakeChannel | None = None
        self.heard = FakeCalls()
        self.streams_of_machine = fake_streams.FakeChannel()
        self.silent = False
        self.reason: WakeReason | None = None
        self._asking = asyncio.Lock()

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
    def calls(self) -> FakeCalls:
        """The calls out of its present machine."""
        if self.channel is None:
            raise UsageError(f"branch {self.name!r} has no machine")
        return self.heard

    @property
    def streams(self) -> fake_streams.FakeChannel:
        """The streams of its present machine; a test is what is at their other end."""
        if self.channel is None:
            raise UsageError(f"branch {self.name!r} has no machine")
        return self.streams_of_machine

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
        self._require_sign("ping", timeout_s)

    async def execute(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 60.0
    ) -> CommandResult:
        """Whatever the test says it gives."""
        self._require_sign("exec", timeout_s)
        return self.inside.execute(self, argv, stdin)

    async def variables(
        self, *, repr_limit: int, timeout_s: float
    ) -> Sequence[Mapping[str, Any]] | None:
        """Whatever the test says they are."""
        self._require_sign("variables", timeout_s)
        return self.inside.variables(self)

    async def run(self, code: str, *, timeout_s: float = 120.0) -> RunResult:
        """Run code through the relay's own request."""
        async with self._asking:
            guest = self.kernel.guest
            await guest.order("run " + json.dumps({"id": 1, "code": code, "timeout_s": timeout_s}))
            while (answer := await guest.answer())[0] != "ran":
                pass
        result: dict[str, Any] = json.loads(answer[1])
        error: dict[str, str] = result.get("error") or {}
        return RunResult(
            status=result["status"],
            text=result["text"],
            elapsed_ms=result["elapsed_ms"],
            error_name=error.get("ename", ""),
            error_value=error.get("evalue", ""),
        )

    async def save(self) -> str:
        """What can be kept of it."""
        result = await self.run(SAVE)
        assert result.status == "ok", result
        return result.text

    async def come_to_rest(self) -> None:
        """Wait until all that the kernel has said so far is on this side, as before a capture."""
        guest = self.kernel.guest
        async with self._asking:
            await guest.order(f"drain {guest.sent}")
            try:
                # A kernel that prints on and on comes to no rest, since nothing freezes it here.
                with suppress(TimeoutError):
                    async with asyncio.timeout(REST_S):
                        while (answer := await guest.answer())[0] != "drained":
                            pass
                        while guest.received < int(answer[1]):  # noqa: ASYNC110 (the pump has no event)
                            await asyncio.sleep(0.001)
            finally:
                await guest.order(f"resume {guest.generation}")

    async def wake(self, head: CheckpointId, saved: str | None, reason: WakeReason) -> None:
        """Start a kernel and put back what was saved."""
        kernel = GuestKernel()
        await kernel.open()
        self.begin(FakeChannel(kernel, secrets.token_hex(8)), head, reason)
        await self._introduce(kernel, reason)
        if saved is not None:
            result = await self.run(LOAD.format(saved=saved))
            assert result.status == "ok", result

    def begin(self, channel: FakeChannel, head: CheckpointId, reason: WakeReason) -> None:
        """Be live from there."""
        self.channel, self.reason, self.heard = channel, reason, FakeCalls()
        self.streams_of_machine = fake_streams.FakeChannel()
        self.record = replace(self.record, state=BranchState.LIVE, head=head)

    def stand_on(self, head: CheckpointId) -> None:
        """Note its newest checkpoint."""
        self.record = replace(self.record, head=head)

    async def end(self, state: BranchState) -> None:
        """End its machine."""
        channel, self.channel = self.channel, None
        self.record = replace(self.record, state=state)
        if channel is not None:
            self.heard.fail(MachineEndedError("the machine has ended: it was ended"))
            await self.streams_of_machine.end()
            await channel.guest.close()

    async def _introduce(self, kernel: GuestKernel, reason: WakeReason) -> None:
        record = self.record
        facts = (self.kernel.incarnation, self.name, str(record.index), record.session, reason, "")
        reader, writer = await asyncio.open_unix_connection(str(kernel.folder / "hook"))
        writer.write(f"awake {chr(9).join(facts)}\n".encode())
        assert (await reader.readline()).startswith(b"awake ")
        writer.close()
        await writer.wait_closed()

    def _require_sign(self, asked: str, timeout_s: float) -> None:
        if self.silent:
            raise GuestSilentError(asked, timeout_s, Path("console.log"))
