"""Take a running machine's memory, devices and disk in one stopped window, and let it run on."""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.command_line import disk_node
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.lineage import Moment
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.memory.dirty import (
    PageBuffer,
    Run,
    dirty_runs,
    share_out,
    total_size,
)
from branchpoint_vmruntime.monitor import Monitor
from branchpoint_vmruntime.overlay import make_overlay
from branchpoint_vmruntime.store import Layer

FREEZE_TIMEOUT_S = 30.0
_HEADROOM = 32 << 20
COPY_THREADS = max(1, min(4, os.cpu_count() or 1))
COPY_ALONE = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was taken.

    Pages in memory, devices and sealed disk overlay as files in the staged folder.
    """

    runs: list[Run]
    pages: memoryview
    image: Path
    moment: Moment
    phases_ms: dict[str, float]
    stopped_ms: float
    paused_ms: float

    @property
    def dirty_bytes(self) -> int:
        """How much the machine had written since it last woke."""
        return len(self.pages)


class _Clock:
    """Names the stretches of time between its ticks."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.phases_ms: dict[str, float] = {}

    def tick(self, name: str) -> None:
        now = time.monotonic()
        self.phases_ms[name] = round(1000 * (now - self._last), 3)
        self._last = now


async def capture(
    machine: Machine,
    staged: Layer,
    overlay_template: Path,
    witness: Callable[[], Awaitable[Moment]],
    *,
    resume: bool,
) -> Capture:
    """Freeze, stop, take, let go. Whatever fails, the machine runs on as it was.

    The witness is heard beside the taking: only the user's processes have to wait for it.
    With `resume` false the machine is left stopped: it is about to be replaced.
    """
    monitor = await machine.monitor()
    image = machine.spec.memory.path
    # In threads: a tenth of a second in which another machine that wakes would ask for the time.
    written = total_size(await asyncio.to_thread(dirty_runs, machine.pid, image))
    buffer = await asyncio.to_thread(PageBuffer, written + _HEADROOM)
    fresh = await _prepare_overlay(machine, monitor, overlay_template)
    clock = _Clock()
    resumed = kept = False
    try:
        frozen = await machine.freeze(timeout_s=FREEZE_TIMEOUT_S)
        clock.tick("freeze")
        hearing = asyncio.ensure_future(witness())
        try:
            await monitor.stop()
            clock.tick("stop")
            runs, pages = await _take(machine, monitor, staged, fresh, buffer, clock)
            if resume:
                await monitor.resume()
                resumed = True
                clock.tick("resume")
            moment = await hearing
            clock.tick("witness")
            kept = True
        finally:
            hearing.cancel()
            if resume or not kept:
                if not resumed:
                    await monitor.resume()
                await machine.thaw(timeout_s=FREEZE_TIMEOUT_S)
                clock.tick("thaw")
    finally:
        if machine.disks.overlay != fresh.path:
            await _discard_overlay(monitor, fresh)
    phases = clock.phases_ms
    stopped = sum(phases.get(name, 0.0) for name in ("stop", "devices-and-disk", "copy"))
    return Capture(
        runs=runs,
        pages=pages,
        image=image,
        moment=moment,
        phases_ms=phases | {f"guest-{name}": value for name, value in frozen.phases_ms.items()},
        stopped_ms=monitor.stopped_ms() or stopped,
        paused_ms=sum(phases.values()),
    )


@dataclass(frozen=True, slots=True)
class _FreshOverlay:
    node: str
    path: Path


async def _prepare_overlay(machine: Machine, monitor: Monitor, template: Path) -> _FreshOverlay:
    """Open the overlay the machine will write to next, before anything has to wait for it."""
    node = f"overlay-{secrets.token_hex(4)}"
    fresh = _FreshOverlay(node, machine.folder / f"{node}.qcow2")
    make_overlay(fresh.path, template)
    try:
        await monitor.add_node(disk_node(node, fresh.path, read_only=False, below=None))
    except BaseException:
        fresh.path.unlink(missing_ok=True)
        raise
    return fresh


async def _discard_overlay(monitor: Monitor, fresh: _FreshOverlay) -> None:
    with contextlib.suppress(MachineError):
        await monitor.remove_node(fresh.node)
    fresh.path.unlink(missing_ok=True)


async def _take(
    machine: Machine,
    monitor: Monitor,
    staged: Layer,
    fresh: _FreshOverlay,
    buffer: PageBuffer,
    clock: _Clock,
) -> tuple[list[Run], memoryview]:
    """Memory, devices and disk of a stopped machine, all at once."""
    copying = asyncio.create_task(_copy(machine.pid, machine.spec.memory.path, buffer))
    sealing = asyncio.create_task(monitor.place_above(machine.top_node, overlay=fresh.node))
    try:
        await monitor.save_devices(staged.devices)
        # Shielded, since QEMU does what it was told even if who asked is called off, and where the
        # disk then writes to must be known.
        await asyncio.shield(sealing)
        machine.seal_overlay(fresh.path, fresh.node)
        clock.tick("devices-and-disk")
        for sealed in machine.unsaved_overlays:
            staged.link_disk(sealed)
    finally:
        await asyncio.wait([copying, sealing])
        if not sealing.exception() and machine.disks.overlay != fresh.path:
            machine.seal_overlay(fresh.path, fresh.node)
    clock.tick("copy")
    return copying.result()


async def _copy(pid: int, image: Path, buffer: PageBuffer) -> tuple[list[Run], memoryview]:
    runs = await asyncio.to_thread(dirty_runs, pid, image)
    size = total_size(runs)
    if size > buffer.size:
        buffer = await asyncio.to_thread(PageBuffer, size)
    threads = COPY_THREADS if size > COPY_ALONE else 1
    await asyncio.gather(
        *(
            asyncio.to_thread(buffer.copy_from, pid, part, start=start)
            for start, part in share_out(runs, threads)
        )
    )
    return runs, buffer.view(size)
