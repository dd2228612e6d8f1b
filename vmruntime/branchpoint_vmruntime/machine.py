"""One machine, from its start to its end.

The only file that puts process, monitor and links together.
"""

import asyncio
import contextlib
import logging
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.command_line import overlay_node
from branchpoint_vmruntime.errors import (
    FreezeError,
    GuestRefusedError,
    GuestSilentError,
    KernelDiedError,
    MachineEndedError,
    MachineError,
    WakeError,
)
from branchpoint_vmruntime.incarnation import Awake, Frozen, Identity, host_name
from branchpoint_vmruntime.link import ControlLink, KernelLink
from branchpoint_vmruntime.memory.dirty import memory_use
from branchpoint_vmruntime.monitor import Monitor
from branchpoint_vmruntime.outfitting import fit_out
from branchpoint_vmruntime.outside.facts import Outfit
from branchpoint_vmruntime.process import QemuProcess
from branchpoint_vmruntime.results import CommandResult, RunResult, describe_kernel_end
from branchpoint_vmruntime.spec import MachineSpec
from branchpoint_vmruntime.stream_link import StreamLink

log = logging.getLogger(__name__)

SPACE_TO_GO_ON_BYTES = 16 << 20
SPACE_POLL_S = 0.5
_INTERRUPT_S = 5.0


def nobody_minds() -> None:
    """Hears of the end of a machine that nobody looks at."""


class Machine:
    """A running microVM. Made by `launch`, which also ends it.

    `on_failure` hears, once, that it can no longer be used.
    """

    def __init__(
        self, spec: MachineSpec, folder: Path, process: QemuProcess, identity: Identity
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.process = process
        self.identity = identity
        self.end_reason = ""
        self.disks = spec.disks
        self.top_node = overlay_node(spec.disks)
        self.unsaved_overlays: tuple[Path, ...] = ()
        self._monitor: asyncio.Task[Monitor] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._control: ControlLink | None = None
        self._kernel: KernelLink | None = None
        self._streams: StreamLink | None = None
        self._booted = asyncio.Event()
        self._kernel_ready = asyncio.Event()
        self._failure: MachineError | None = None
        self.on_failure: Callable[[], None] = nobody_minds
        self.calls = CallQueue(self._answer_call)

    def adopt(self, identity: Identity) -> None:
        """Make a machine that stood by the next incarnation of a branch."""
        self.identity = identity
        self.kernel.incarnation = identity.incarnation

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether QEMU runs."""
        return not self.process.ended

    @property
    def failure(self) -> MachineError | None:
        """Why the machine, or the kernel in it, can no longer be used; None while it can."""
        return self._failure

    @property
    def kernel(self) -> KernelLink:
        """The channel to the kernel."""
        if self._kernel is None:
            raise MachineEndedError("the machine has no kernel link")
        return self._kernel

    @property
    def streams(self) -> StreamLink:
        """The streams to and from what runs in it."""
        if self._streams is None:
            raise MachineEndedError("the machine has no link for streams")
        return self._streams

    @property
    def control(self) -> ControlLink:
        """The link to guestd."""
        if self._control is None:
            raise MachineEndedError("the machine has no control link")
        return self._control

    def seal_overlay(self, fresh: Path, node: str) -> None:
        """Note that the disk now writes to `fresh`, and the overlay before it no longer changes.

        Sealed overlays count as unsaved until a checkpoint that holds them has been published: if
        it is not, the next one must hold them as well.
        """
        sealed = self.disks.overlay
        self.unsaved_overlays = (*self.unsaved_overlays, sealed)
        self.disks = replace(self.disks, layers=(*self.disks.layers, sealed), overlay=fresh)
        self.top_node = node

    def overlays_saved(self) -> None:
        """Note that a checkpoint now holds every sealed overlay."""
        self.unsaved_overlays = ()

    async def monitor(self) -> Monitor:
        """QEMU's monitor, once it has answered."""
        if self._monitor is None:
            raise MachineEndedError("the machine has no monitor")
        return await asyncio.shield(self._monitor)

    async def wait_booted(self, *, timeout_s: float) -> None:
        """Wait for guestd's first word after a cold boot."""
        await self._wait(self._booted, "boot", timeout_s)

    async def start_kernel(
        self, argv: Sequence[str], environment: dict[str, str], *, timeout_s: float
    ) -> None:
        """Start the kernel in a booted machine and wait until it answers."""
        fields = {
            "identity": self.identity.as_json(),
            "host_name": host_name(self.identity.branch),
            "argv": list(argv),
            "environment": environment,
        }
        await self.control.ask("start", fields, timeout_s=timeout_s)
        await self._wait(self._kernel_ready, "kernel start", timeout_s)
        self.kernel.open_gate()
        self.streams.resume()

    async def freeze(self, *, timeout_s: float) -> Frozen:
        """Bring the user's processes to rest with nothing under way on the links.

        FreezeError if that does not succeed; then everything runs on as before.
        """
        sent = self.kernel.quiesce()
        streamed = self.streams.quiesce()
        self.control.hold()
        try:
            fields = {"sent": sent, "streamed": -1 if self.streams.is_ended else streamed}
            reply = await self.control.ask("freeze", fields, timeout_s=timeout_s, at_rest=True)
            await self._wait_received(reply, timeout_s)
        except (GuestSilentError, GuestRefusedError) as error:
            await self._undo_freeze()
            raise FreezeError(
                f"the machine could not be brought to rest: {error}",
                hint="nothing was saved and it runs on; try again, or go back with %rollback",
            ) from error
        except BaseException:
            await self._undo_freeze()
            raise
        return Frozen.from_answer(reply.get("phases_ms"))

    async def _wait_received(self, reply: Mapping[str, Any], timeout_s: float) -> None:
        what = "messages of the kernel"
        try:
            async with asyncio.timeout(timeout_s):
                await self.kernel.wait_received(reply["sent"])
                what = "streams of the machine"
                # None from a guest whose streams have ended. On this side they may as well.
                if reply.get("streamed") is not None:
                    with contextlib.suppress(MachineEndedError):
                        await self.streams.wait_received(reply["streamed"])
        except TimeoutError as error:
            raise GuestSilentError(what, timeout_s, self.spec.console) from error

    async def _undo_freeze(self) -> None:
        with contextlib.suppress(MachineError):
            await self.control.ask("thaw", timeout_s=2.0, at_rest=True)
        self._let_through()

    async def thaw(self, *, timeout_s: float) -> None:
        """Let the same incarnation run on, its clock put right."""
        await self.control.ask("thaw", timeout_s=timeout_s, at_rest=True)
        self._let_through()

    def _let_through(self) -> None:
        self.control.release()
        self.kernel.resume()
        self.streams.resume()

    async def run_on(self) -> None:
        """Let a machine that was captured and left stopped go on as if nothing had been."""
        monitor = await self.monitor()
        await monitor.resume()
        await self.thaw(timeout_s=30.0)

    async def wake(self, *, reseed: bool, timeout_s: float) -> Awake:
        """The handshake of a new incarnation: clock, entropy, identity, then thaw.

        WakeError if it is not completed; the machine must not be handed out then.
        """
        generation = secrets.randbits(32)
        self.control.generation = generation
        self.kernel.generation = generation
        self.streams.generation = generation
        who = self.identity
        order = [str(generation), secrets.token_hex(32), secrets.token_hex(32) if reseed else ""]
        order += [who.as_json(), host_name(who.branch)]
        order += [who.reason, who.incarnation, who.branch, str(who.index), who.session]
        try:
            awake = Awake.from_answer(await self.control.ask_to_wake(order, timeout_s=timeout_s))
        except (MachineError, ValueError) as error:
            raise WakeError(f"the machine did not wake: {error}") from error
        self._let_through()
        return awake

    async def run(self, code: str, *, timeout_s: float) -> RunResult:
        """Run code in the kernel, from guestd's side: works without Jupyter on the host."""
        fields = {"code": code, "timeout_s": timeout_s}
        reply = await self.control.ask("run", fields, timeout_s=timeout_s + 5.0)
        error: dict[str, str] = reply.get("error") or {}
        return RunResult(
            status=reply["status"],
            text=reply["text"],
            elapsed_ms=reply["elapsed_ms"],
            error_name=error.get("ename", ""),
            error_value=error.get("evalue", ""),
        )

    async def execute(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command among the user's processes and wait for it."""
        fields = {"argv": list(argv), "stdin": stdin}
        reply = await self.control.ask("exec", fields, timeout_s=timeout_s)
        return CommandResult(status=reply["status"], stdout=reply["stdout"], stderr=reply["stderr"])

    async def variables(self, *, repr_limit: int, timeout_s: float) -> list[dict[str, Any]] | None:
        """What the user's variables are; None if this kernel has nobody to ask."""
        fields = {"repr_limit": repr_limit, "timeout_s": timeout_s}
        reply = await self.control.ask("variables", fields, timeout_s=timeout_s)
        return reply["variables"]

    async def outfit(self, outfit: Outfit, *, timeout_s: float) -> None:
        """Give the user's processes variables and files."""
        await fit_out(self.control, outfit, timeout_s=timeout_s)

    async def interrupt(self) -> None:
        """SIGINT to the kernel's process group."""
        await self.control.ask("interrupt", timeout_s=_INTERRUPT_S)

    async def ping(self, *, timeout_s: float) -> None:
        """Ask for a sign of life."""
        await self.control.ask("ping", timeout_s=timeout_s)

    def traffic(self) -> tuple[int, ...]:
        """Counters of which one differs as soon as anything has crossed to it or from it."""
        kernel, streams = self.kernel, self.streams
        return kernel.sent, kernel.received, streams.sent, streams.received

    @property
    def is_asked(self) -> bool:
        """Whether guestd owes an answer, or a command runs: something is done for somebody."""
        return self.control.is_asked or self.streams.has_for("exec")

    def memory(self) -> tuple[int, int]:
        """Host memory in bytes: its own, and mapped from the shared image."""
        return memory_use(self.pid)

    async def end(self, reason: str = "it was ended") -> None:
        """End it at once; nothing of it is kept but what was checkpointed."""
        self.end_reason = reason
        await self.process.end()

    async def _wait(self, event: asyncio.Event, what: str, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError as error:
            raise GuestSilentError(what, timeout_s, self.spec.console) from error
        if self._failure is not None:
            raise self._failure

    def _on_event(self, message: dict[str, Any]) -> None:
        match message.get("op"):
            case "booted":
                self._booted.set()
            case "kernel-ready":
                self._kernel_ready.set()
            case "kernel-ended":
                self._fail_kernel(KernelDiedError(describe_kernel_end(message)))
            case "relay-ended":
                self._fail_kernel(KernelDiedError("the relay beside the kernel has ended"))
            case "streams-ended":
                self.streams.fail(MachineEndedError("what carries streams in the machine ended"))
            case "call":
                self.calls.take(message)
            case "call-gone":
                self.calls.note_gone(message["id"])
            case _:
                pass

    def _fail_kernel(self, error: MachineError) -> None:
        if self._failure is None:
            self._failure = error
            self.on_failure()
        self._booted.set()
        self._kernel_ready.set()
        if self._kernel is not None:
            self._kernel.fail(error)

    def _on_process_end(self) -> None:
        why = self.end_reason or self.process.describe_end()
        error = MachineEndedError(f"the machine has ended: {why}")
        self._fail_kernel(error)
        self.calls.fail(error)
        if self._control is not None:
            self._control.fail(error)
        if self._streams is not None:
            self._streams.fail(error)

    def _answer_call(self, number: int, answer: Mapping[str, Any]) -> None:
        self.control.tell("answer", {"call": number, "answer": answer})

    async def connect(
        self,
        monitor: socket.socket,
        control: socket.socket,
        kernel: socket.socket,
        streams: socket.socket,
    ) -> None:
        """Take up the conversations. Called by `launch`."""
        self._monitor = asyncio.create_task(Monitor.connect(monitor, name=self.folder.name))
        self._control = await ControlLink.open(control, self._on_event, self.spec.console)
        # Without guestd nothing can be done with the kernel but wait for it.
        self._control.on_broken = self._fail_kernel
        self._kernel = await KernelLink.open(kernel, self.identity.incarnation)
        self._kernel.on_broken = self._fail_kernel
        self._streams = await StreamLink.connect(streams, self.spec.console)
        self._watch = asyncio.create_task(self._go_on_once_there_is_space())
        self.process.on_end(self._on_process_end)

    async def _go_on_once_there_is_space(self) -> None:
        """QEMU stops a machine that finds the disk full, and repeats its writes when it goes on."""
        with contextlib.suppress(MachineError):
            monitor = await self.monitor()
            while True:
                await monitor.wait_stopped_for_space()
                log.warning("the disk of %s is full: a machine waits for space", self.folder)
                # No file system tells when it has space again.
                while shutil.disk_usage(self.folder).free < SPACE_TO_GO_ON_BYTES:  # noqa: ASYNC110
                    await asyncio.sleep(SPACE_POLL_S)
                await monitor.retry_writes()

    async def close(self) -> None:
        """End it and its conversations. Called by `launch`."""
        await self.end()
        self._on_process_end()
        if self._watch is not None:
            self._watch.cancel()
        if self._monitor is not None:
            with contextlib.suppress(MachineError):
                monitor = await self._monitor
                await monitor.close()
