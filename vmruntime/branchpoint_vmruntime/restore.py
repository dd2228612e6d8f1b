"""Start a machine from a checkpoint: map its memory, load its devices, wake it."""

import shutil
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.branch_seam import WakeCost
from branchpoint_vmruntime.errors import MachineStartError, WakeError
from branchpoint_vmruntime.incarnation import Awake, Identity
from branchpoint_vmruntime.launching import launch
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.overlay import make_overlay
from branchpoint_vmruntime.spec import (
    Disks,
    Emulator,
    GuestMemory,
    Incoming,
    MachineSize,
    MachineSpec,
    Port,
    StandBy,
)

WAKE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMachine:
    """All that is needed to start a machine from a checkpoint: where its parts are."""

    emulator: Emulator
    size: MachineSize
    root: Path
    overlay_template: Path
    memory: Path
    devices: Path
    disk_layers: tuple[Path, ...]
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """A machine that has completed the handshake, what it said, and what that took."""

    machine: Machine
    awake: Awake
    cost: WakeCost


@asynccontextmanager
async def restored(
    saved: SavedMachine, folder: Path, identity: Identity, *, reseed: bool
) -> AsyncGenerator[Woken]:
    """A machine that carries on from the checkpoint under a new identity; it ends on leaving.

    WakeError if it does not complete the handshake, or answers with another kernel's nonce: then
    the kernel in it is not the one that was saved.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        with saved.devices.open("rb") as state:
            overlay = fresh_overlay(folder, saved.overlay_template)
            start = Incoming(state_fd=state.fileno())
            make_spec = spec_maker(saved, folder, overlay, start)
            machines = launch(make_spec, folder, identity, inherit=[state.fileno()])
            machine = await stack.enter_async_context(machines)
        yield await _wake(machine, saved.nonce, started, reseed=reseed)


@asynccontextmanager
async def standing_by(saved: SavedMachine, folder: Path) -> AsyncGenerator[Machine]:
    """A machine on the checkpoint's memory and disk that waits to be woken; it ends on leaving."""
    overlay = fresh_overlay(folder, saved.overlay_template)
    nobody = Identity.new(session="", branch="standby", index=0)
    async with launch(spec_maker(saved, folder, overlay, StandBy()), folder, nobody) as machine:
        await machine.monitor()
        yield machine


async def wake_standing(
    machine: Machine, saved: SavedMachine, identity: Identity, *, reseed: bool
) -> Woken:
    """Load the checkpoint into a machine that stood by for it, and wake it as `restored` does."""
    started = time.monotonic()
    machine.adopt(identity)
    monitor = await machine.monitor()
    await monitor.load_devices(saved.devices)
    return await _wake(machine, saved.nonce, started, reseed=reseed)


def fresh_overlay(folder: Path, template: Path) -> Path:
    """Make a machine's folder with an empty overlay in it, and give the overlay."""
    folder.mkdir(mode=0o700, parents=True)
    try:
        return make_overlay(folder / "overlay.qcow2", template)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def spec_maker(
    saved: SavedMachine, folder: Path, overlay: Path, start: Incoming | StandBy
) -> Callable[[int, tuple[Port, ...]], MachineSpec]:
    """What `launch` asks for: the spec, once the descriptors are known."""

    def make(monitor_fd: int, ports: tuple[Port, ...]) -> MachineSpec:
        return MachineSpec(
            emulator=saved.emulator,
            size=saved.size,
            memory=GuestMemory(path=saved.memory, shared=False),
            disks=Disks(root=saved.root, layers=saved.disk_layers, overlay=overlay),
            start=start,
            ports=ports,
            monitor_fd=monitor_fd,
            console=folder / "console.log",
        )

    return make


async def _wake(machine: Machine, nonce: str, started: float, *, reseed: bool) -> Woken:
    spawned = time.monotonic()
    try:
        awake = await machine.wake(reseed=reseed, timeout_s=WAKE_TIMEOUT_S)
    except WakeError as error:
        if not machine.alive:
            raise MachineStartError(
                f"the saved machine could not be loaded: {machine.process.describe_end()}"
            ) from error
        raise
    if nonce and awake.nonce != nonce:
        raise WakeError(
            "the kernel in the restored machine is not the one that was saved; it was ended"
        )
    done = time.monotonic()
    phases = {
        "spawn": round(1000 * (spawned - started), 3),
        "load-and-wake": round(1000 * (done - spawned), 3),
    } | {f"guest-{name}": value for name, value in awake.phases_ms.items()}
    cost = WakeCost(awake_ms=round(1000 * (done - started), 3), phases_ms=phases)
    return Woken(machine=machine, awake=awake, cost=cost)


def disk_chain(template: Path, layers: Sequence[tuple[Path, ...]]) -> tuple[Path, ...]:
    """A checkpoint's immutable disk layers: the template, then its ancestors', oldest first."""
    return (template, *(path for disks in layers for path in disks))
