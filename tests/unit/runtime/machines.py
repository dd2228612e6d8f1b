"""A machine whose QEMU is a sleeping process, with a guest and a monitor that are made up."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socketpair
from typing import Any

import pytest
from tests.support.fake_guest import FakeGuest, fake_guest
from tests.support.fake_monitor import FakeMonitor, fake_monitor

from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.process import QemuProcess
from branchpoint_vmruntime.spec import (
    Disks,
    Emulator,
    GuestMemory,
    Incoming,
    MachineSize,
    MachineSpec,
    Port,
)

IDENTITY = Identity(session="s-1", branch="ridge_2", index=3, incarnation="inc-1", token="t")


@dataclass(frozen=True)
class MadeUp:
    """The machine and what is behind it."""

    machine: Machine
    guest: FakeGuest
    monitor: FakeMonitor


def a_spec(folder: Path) -> MachineSpec:
    """A machine restored from a checkpoint with one disk layer below its own."""
    return MachineSpec(
        emulator=Emulator(argv=("qemu",), accelerator="tcg"),
        size=MachineSize(memory_mib=512),
        memory=GuestMemory(path=folder / "memory", shared=False),
        disks=Disks(
            root=folder / "root.img",
            layers=(folder / "template.qcow2", folder / "disk-000.qcow2"),
            overlay=folder / "overlay.qcow2",
        ),
        start=Incoming(state_fd=9),
        ports=(
            Port(name="control", fd=7),
            Port(name="kernel", fd=8),
            Port(name="streams", fd=10),
        ),
        monitor_fd=6,
        console=folder / "console.log",
    )


def wait_for_answers(it: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine wait for answers for as long as they take, whatever patience it is told."""
    ask = it.machine.control.ask

    async def asked(
        op: str, fields: Mapping[str, Any] | None = None, *, timeout_s: float, at_rest: bool = False
    ) -> dict[str, Any]:
        return await ask(op, fields, timeout_s=max(timeout_s, 120), at_rest=at_rest)

    monkeypatch.setattr(it.machine.control, "ask", asked)


@asynccontextmanager
async def made_up(folder: Path, argv: Sequence[str] = ("sleep", "1000")) -> AsyncGenerator[MadeUp]:
    """A machine in conversation with its guest and its monitor; its kernel may be sent to."""
    pairs = [socketpair() for _ in range(4)]
    ours, (its_monitor, *its_ports) = zip(*pairs, strict=True)
    for sock in ours:
        sock.setblocking(False)  # noqa: FBT003
    async with AsyncExitStack() as stack:
        guest = await stack.enter_async_context(fake_guest(*its_ports))
        qemu = await stack.enter_async_context(fake_monitor(its_monitor))
        process = QemuProcess.start(argv, pass_fds=[], log=folder / "qemu.log")
        machine = Machine(a_spec(folder), folder, process, IDENTITY)
        stack.push_async_callback(machine.close)
        await machine.connect(*ours)
        machine.kernel.open_gate()
        machine.streams.resume()
        yield MadeUp(machine, guest, qemu)
