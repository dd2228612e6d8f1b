"""The floors: what QEMU alone takes for the same machine, without anything of ours in the guest."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.launching import launch
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.restore import SavedMachine, fresh_overlay, spec_maker
from branchpoint_vmruntime.spec import Incoming


@asynccontextmanager
async def spawned(saved: SavedMachine, live: Path) -> AsyncGenerator[Machine]:
    """A QEMU on the saved machine, loading; nobody wakes the guest in it."""
    folder = live / f"bare-{secrets.token_hex(3)}"
    overlay = fresh_overlay(folder, saved.overlay_template)
    with saved.devices.open("rb") as state:
        make_spec = spec_maker(saved, folder, overlay, Incoming(state_fd=state.fileno()))
        identity = Identity.new(session="", branch="bare", index=0)
        async with launch(make_spec, folder, identity, inherit=[state.fileno()]) as machine:
            yield machine


async def spawn_and_load_ms(saved: SavedMachine, live: Path) -> float:
    """From nothing to a loaded machine that runs, as its monitor says."""
    started = time.monotonic()
    async with spawned(saved, live) as machine:
        monitor = await machine.monitor()
        await monitor.wait_running()
        return 1000 * (time.monotonic() - started)


def copy_ms(size: int) -> float:
    """Copying that many bytes from one place in memory to another, both touched before."""
    source, target = bytearray(size), bytearray(size)
    source[::4096] = b"\1" * len(source[::4096])
    target[::4096] = b"\1" * len(target[::4096])
    view = memoryview(target)
    started = time.monotonic()
    view[:] = source
    return 1000 * (time.monotonic() - started)


async def stop_and_save_ms(machine: Machine, scratch: Path) -> float:
    """Stopping the vCPUs and saving the devices of a machine that runs; it runs on."""
    monitor = await machine.monitor()
    target = scratch / f"devices-{secrets.token_hex(3)}"
    started = time.monotonic()
    await monitor.stop()
    await monitor.save_devices(target)
    took_ms = 1000 * (time.monotonic() - started)
    await monitor.resume()
    return took_ms
