"""Take a running machine's memory, devices and disk in one stopped window, and let it run on."""

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.command_line import disk_node
from branchpoint_vmruntime.errors import CheckpointError
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.memory.dirty import PageBuffer, Run, dirty_runs, total_size
from branchpoint_vmruntime.store import Layer

FREEZE_TIMEOUT_S = 30.0
_HEADROOM = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was taken.

    Pages in memory, devices and sealed disk overlay as files in the staged folder.
    """

    runs: list[Run]
    pages: memoryview
    image: Path
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
    machine: Machine, staged: Layer, overlay_template: Path, *, resume: bool
) -> Capture:
    """Freeze, stop, take, let go. Whatever fails, the machine runs on as it was.

    With `resume` false the machine is left stopped: it is about to be replaced.
    """
    monitor = await machine.monitor()
    image = machine.spec.memory.path
    buffer = PageBuffer(total_size(dirty_runs(machine.pid, image)) + _HEADROOM)
    overlay = machine.folder / f"overlay-{len(machine.disks.layers)}.qcow2"
    shutil.copyfile(overlay_template, overlay)
    node = f"layer-{len(machine.disks.layers) + 1}"
    await monitor.add_node(disk_node(node, overlay, read_only=False, below=None))

    clock = _Clock()
    frozen = await machine.freeze(timeout_s=FREEZE_TIMEOUT_S)
    clock.tick("freeze")
    taken = False
    try:
        await monitor.stop()
        clock.tick("stop")
        copying = asyncio.create_task(asyncio.to_thread(_copy, machine.pid, image, buffer))
        try:
            await monitor.save_devices(staged.devices)
            clock.tick("devices")
            below = f"layer-{len(machine.disks.layers)}"
            await monitor.place_above(below, overlay=node)
            machine.seal_overlay(overlay)
            clock.tick("disk")
        finally:
            runs, pages = await copying
        clock.tick("copy")
        for sealed in machine.unsaved_overlays:
            staged.link_disk(sealed)
        taken = True
    except OSError as error:
        raise CheckpointError(f"the machine's state could not be written: {error}") from error
    finally:
        if resume or not taken:
            await monitor.resume()
            clock.tick("resume")
            await machine.thaw(timeout_s=FREEZE_TIMEOUT_S)
            clock.tick("thaw")
    phases = clock.phases_ms
    stopped = sum(phases.get(name, 0.0) for name in ("stop", "devices", "disk", "copy"))
    return Capture(
        runs=runs,
        pages=pages,
        image=image,
        phases_ms=phases | {f"guest-{name}": value for name, value in frozen.phases_ms.items()},
        stopped_ms=monitor.stopped_ms() or stopped,
        paused_ms=sum(phases.values()),
    )


def _copy(pid: int, image: Path, buffer: PageBuffer) -> tuple[list[Run], memoryview]:
    runs = dirty_runs(pid, image)
    size = total_size(runs)
    if size > buffer.size:
        buffer = PageBuffer(size)
    buffer.copy_from(pid, runs)
    return runs, buffer.view(size)
