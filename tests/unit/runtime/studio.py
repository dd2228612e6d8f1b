"""A machine whose memory is that of a process of ours, and a place for its checkpoints."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.unit.runtime.machines import MadeUp, made_up

from branchpoint_vmruntime.checkpoint import CheckpointOrder, Draft, draft, publish
from branchpoint_vmruntime.lineage import (
    BranchName,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
)
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.session import Witness, nothing_known
from branchpoint_vmruntime.store import LayerStore, MachineFacts

PAGES = 64
PARENT = b"\1" * (PAGES * PAGE)
# A page changed, one made zero, one written but equal to the parent's, two neighbours.
WRITTEN = {3: 7, 10: 0, 20: 1, 30: 9, 31: 9}
ORDER = CheckpointOrder(
    session=SessionId("s-1"),
    parent=CheckpointId("ba5eba5eba5e"),
    label="loaded",
    note="",
    kind=CheckpointKind.USER,
    branch=BranchName("main"),
)
FACTS = MachineFacts(
    qemu="QEMU 10.0.2",
    accelerator="tcg",
    cpu="max",
    memory_mib=1,
    vcpus=1,
    image="d1g357",
    protocol=2,
    tsc_khz=2_000_000,
)


class Studio:
    """A machine, and where its checkpoints go."""

    def __init__(self, made: MadeUp, folder: Path) -> None:
        self.machine = made.machine
        self.guest = made.guest
        self.qemu = made.monitor
        self.store = LayerStore(folder / "layers")
        self.witness: Witness = nothing_known
        self._folder = folder

    async def draft(self, *, resume: bool = True) -> Draft:
        """Capture."""
        template = self._folder / "template"
        order = replace(ORDER, witness=self.witness)
        return await draft(self.store, self.machine, template, order, resume=resume)

    async def publish(self, pending: Draft) -> Checkpoint:
        """Make the capture a checkpoint."""
        image = self.machine.spec.memory.path
        return await publish(self.store, pending, image, FACTS, "c0ffee")

    def done(self) -> list[str]:
        """What QEMU and the guest were told, in order, as far as it stops and starts."""
        return [name for name, _ in self.qemu.commands if name in ("stop", "cont")]

    def asked(self) -> list[str]:
        """What the guest was asked."""
        return [message["op"] for message in self.guest.asked]

    def kept(self) -> list[str]:
        """What there is in the store."""
        return sorted(path.name for path in (self._folder / "layers").iterdir())

    async def runs_on(self) -> None:
        """Fails unless its CPUs, its processes and its kernel link go on."""
        assert self.done()[-1:] in ([], ["cont"])
        assert self.asked()[-1:] in ([], ["thaw"])
        await self.machine.kernel.send([b"shell"])
        await self.guest.inbox.get()


@asynccontextmanager
async def studio(folder: Path) -> AsyncGenerator[Studio]:
    """A machine that woke on the parent's memory and has written since."""
    for name in ("template", "overlay.qcow2"):
        (folder / name).write_bytes(b"QFI\xfb")
    (folder / "memory").write_bytes(PARENT)
    writes = [f"{page}={byte}" for page, byte in WRITTEN.items()]
    argv = [sys.executable, "-m", "tests.support.fake_emulator", str(folder / "memory"), *writes]
    async with made_up(folder, argv) as made:
        await _wait_written(folder / "qemu.log")
        yield Studio(made, folder)


async def _wait_written(log: Path) -> None:
    while "written" not in log.read_text():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
