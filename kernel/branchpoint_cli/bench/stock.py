"""Stock QEMU on the same guest: a full migration to a file, and savevm with loadvm."""

import asyncio
import secrets
import shutil
import socket
import time
from pathlib import Path

from branchpoint_cli.bench.bare import spawned
from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import Bench, first_reply_ms
from branchpoint_vmruntime.command_line import command_line
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.monitor import Monitor
from branchpoint_vmruntime.restore import SavedMachine, fresh_overlay, spec_maker
from branchpoint_vmruntime.spec import MachineSpec, Port, StandBy

SNAPSHOT = "bench"


async def stock(bench: Bench, start: Checkpoint) -> list[Figure]:
    """Our pause and our fork against stock QEMU's, alternating."""
    saved = await bench.session.materialise(start)
    ours: list[float] = []
    full: list[float] = []
    for _ in range(bench.runs):
        ours.append((await bench.session.checkpoint()).cost.paused_ms)
        full.append(await migrate_ms(saved, bench.scratch))
    disk = await savevm(saved, bench.scratch)
    forked: list[float] = []
    loaded: list[float] = []
    for _ in range(bench.runs):
        forked.append((await first_reply_ms(bench, 1, start))[0])
        loaded.append(await loadvm_ms(saved, disk, bench.scratch))
    return [
        Figure(
            name="stock QEMU: paused for a full migrate to a file",
            unit="ms",
            values=tuple(full),
            floor_name="our checkpoint, processes paused",
            floor=tuple(ours),
            bound="at least 5",
        ),
        Figure(
            name="stock QEMU: loadvm of a savevm, to running",
            unit="ms",
            values=tuple(loaded),
            floor_name="our fork x1 to awake",
            floor=tuple(forked),
            bound="at least 5",
        ),
    ]


async def migrate_ms(saved: SavedMachine, scratch: Path) -> float:
    """How long a machine is stopped while all of it is written to a file."""
    async with spawned(saved, scratch) as machine:
        monitor = await machine.monitor()
        await monitor.wait_running()
        target = scratch / f"migrated-{secrets.token_hex(3)}"
        try:
            started = time.monotonic()
            await monitor.stop()
            await monitor.migrate_to(target)
            return 1000 * (time.monotonic() - started)
        finally:
            target.unlink(missing_ok=True)


async def savevm(saved: SavedMachine, scratch: Path) -> Path:
    """An overlay with the whole machine in it, as an internal snapshot."""
    async with spawned(saved, scratch) as machine:
        monitor = await machine.monitor()
        await monitor.wait_running()
        await monitor.human(f"savevm {SNAPSHOT}")
        kept = scratch / "savevm.qcow2"
        await monitor.stop()
        await machine.end("its snapshot is saved")
        shutil.copyfile(machine.disks.overlay, kept)
    return kept


async def loadvm_ms(saved: SavedMachine, disk: Path, scratch: Path) -> float:
    """From nothing to running, by a QEMU with memory of its own that loads the snapshot."""
    folder = scratch / f"loadvm-{secrets.token_hex(3)}"
    overlay = fresh_overlay(folder, disk)
    pairs = [socket.socketpair() for _ in range(3)]
    try:
        fds = [theirs.fileno() for _, theirs in pairs]
        ports = (Port(name="control", fd=fds[1]), Port(name="kernel", fd=fds[2]))
        spec = spec_maker(saved, folder, overlay, StandBy())(fds[0], ports)
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(*loadvm_argv(spec), pass_fds=fds)
        try:
            pairs[0][0].setblocking(False)  # noqa: FBT003
            monitor = await Monitor.connect(pairs[0][0], name="loadvm")
            await monitor.wait_running()
            took_ms = 1000 * (time.monotonic() - started)
            await monitor.close()
        finally:
            process.kill()
            await process.wait()
    finally:
        for pair in pairs:
            for sock in pair:
                sock.close()
        shutil.rmtree(folder, ignore_errors=True)
    return took_ms


def loadvm_argv(spec: MachineSpec) -> list[str]:
    """The same machine, but with memory of its own, and loading the internal snapshot."""
    argv = command_line(spec)
    place = argv.index("-incoming")
    del argv[place : place + 2]
    memory = f"memory-backend-ram,id=ram,size={spec.size.memory_mib}M"
    argv[argv.index("-object") + 1] = memory
    return [*argv, "-loadvm", SNAPSHOT]
