"""Pause and resume with much in memory, and what a session takes of the host while it is paused.

Held against the disk for as many bytes, bare QEMU, and a fork of the same checkpoint.
"""

import asyncio
import mmap
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from branchpoint_cli.bench.bare import spawn_and_load_ms
from branchpoint_cli.bench.crowded import crowded
from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import MB, Bench, first_reply_ms
from branchpoint_cli.bench.taken import processor_ms, resident_mb, share_ms_per_s
from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.leaks import running_machines
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.memory.sparse import copy_sparse
from branchpoint_vmruntime.spec import MachineSize

Times = Mapping[str, Sequence[float]]

# Holds the largest of these, the base's own and what a kernel needs to move.
SIZE = MachineSize(memory_mib=3072)
RESIDENT_MB = (256, 1024, 2048)
RUNS = 3
BLOCK_MB = 256
WATCHED_S = 2.0
# One random MB many times over, which no file system packs, and drawing more takes minutes.
FILL = f"""
import array, os
one = os.urandom(1 << 20)
blocks = [bytearray(one) * {BLOCK_MB} for _ in range(%d)]
"""
# Every page is written once more, and begins with a word that no other page has.
TOUCH = f"""
for number, block in enumerate(blocks):
    first = (%d << 32) + (number << 20)
    words = array.array("Q", range(first, first + ({BLOCK_MB} << 8))).tobytes()
    for place in range(8):
        block[place::4096] = words[place::8]
"""
_DISK = "write and fsync of as many bytes"
_BARE = "bare QEMU spawn and load, memory prepared"
_FORK = "fork x1 of it to first reply, memory prepared"
_COPY = "a copy of the prepared file"


async def sessions(runtime: Runtime, runs: int) -> list[Figure]:
    """All of it, over a session of its own and a home of its own."""
    figures: list[Figure] = []
    async with runtime.session(Manifest(size=SIZE)) as session:
        bench = Bench(session, min(runs, RUNS), runtime.home.live / session.record.id)
        for resident_mb_ in RESIDENT_MB:
            times = await _with(bench, runtime, resident_mb_)
            figures += pauses_and_resumes(times, resident_mb_)
            if resident_mb_ == RESIDENT_MB[-1]:
                figures += while_paused(times, resident_mb_)
            # Gigabytes, which nobody wants once they are measured.
            await session.rollback("base", safety=False)
            await session.remove([it for it in session.checkpoints() if it.parent is not None])
        return [*figures, *await asyncio.to_thread(crowded, bench.scratch, bench.runs)]


def pauses_and_resumes(times: Times, block_mb: int) -> list[Figure]:
    """Of one size, in ms: each against what it cannot be quicker than.

    >>> times = dict.fromkeys(("pause", "disk", "reply", "bare", "fork", "prepare", "copy"), [4.0])
    >>> [figure.ratio for figure in pauses_and_resumes({**times, "dirty": [266.0]}, 256)]
    [1.0, 1.0, 1.0, 1.0]
    """
    dirty_mb = sorted(times["dirty"])[len(times["dirty"]) // 2]
    what = f"{block_mb / 1024:g} GB block"
    rows = (
        (f"pause, {what}, {dirty_mb:.0f} MB dirty", "pause", "disk", _DISK),
        (f"resume to first reply, {what}", "reply", "bare", _BARE),
        (f"resume to first reply, {what}", "reply", "fork", _FORK),
        (f"memory prepared after the pause, {what}", "prepare", "copy", _COPY),
    )
    return [
        Figure(
            name=name,
            unit="ms",
            values=tuple(times[ours]),
            floor_name=floor_name,
            floor=tuple(times[floor]),
        )
        for name, ours, floor, floor_name in rows
    ]


def while_paused(times: Times, block_mb: int) -> list[Figure]:
    """What a paused session takes of the host, against itself before the pause."""
    what = f"while paused, {block_mb / 1024:g} GB block"
    rows = (
        ("processes of QEMU", "", "machines"),
        ("memory of QEMU", "MB", "machine_mb"),
        ("memory of the host process", "MB", "host_mb"),
        ("processor time a second, host process and QEMU", "ms", "share"),
    )
    return [
        Figure(
            name=f"{name} {what}",
            unit=unit,
            values=tuple(times[f"{key}, paused"]),
            floor_name="before the pause, idle",
            floor=tuple(times[f"{key}, live"]),
        )
        for name, unit, key in rows
    ]


async def _with(bench: Bench, runtime: Runtime, block_mb: int) -> Times:
    """So many MB in the machine, all written anew before each pause."""
    session, times = bench.session, defaultdict[str, list[float]](list)
    await session.current.run(FILL % (block_mb // BLOCK_MB))
    watched = block_mb == RESIDENT_MB[-1]
    for run in range(bench.runs):
        await session.current.run(TOUCH % (run + 1))
        if watched:
            await _watch(bench, runtime, times, "live")
        began = time.monotonic()
        saved = (await session.pause()).checkpoint
        times["pause"].append(_since(began))
        times["dirty"].append(saved.cost.dirty_bytes / MB)
        began = time.monotonic()
        prepared = await session.materialise(saved)
        times["prepare"].append(_since(began))
        if watched:
            await _watch(bench, runtime, times, "paused")
        disk_ms = await asyncio.to_thread(write_ms, bench.scratch, saved.cost.memory_bytes)
        times["disk"].append(disk_ms)
        began = time.monotonic()
        await session.resume()
        await session.current.run("1+1")
        times["reply"].append(_since(began))
        times["copy"].append(await asyncio.to_thread(_copy_ms, prepared.memory, bench.scratch))
        times["bare"].append(await spawn_and_load_ms(prepared, bench.scratch))
        times["fork"].append((await first_reply_ms(bench, 1, saved))[1])
    return times


async def _watch(
    bench: Bench, runtime: Runtime, times: Mapping[str, list[float]], state: str
) -> None:
    """Look on for a moment while nothing is asked of the session."""
    here = str(bench.session.record.id)
    machines = [it.pid for it in running_machines(runtime.home) if it.session == here]
    everything = [os.getpid(), *machines]
    before_ms, began = processor_ms(everything), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    times[f"share, {state}"].append(share_ms_per_s(before_ms, began, everything))
    times[f"machines, {state}"].append(float(len(machines)))
    times[f"machine_mb, {state}"].append(sum(map(resident_mb, machines)))
    times[f"host_mb, {state}"].append(resident_mb())


def write_ms(folder: Path, size: int) -> float:
    """Writing that many bytes of touched memory into a new file there, until they are on disk."""
    path, written = folder / "as-many-bytes", 0
    with mmap.mmap(-1, 64 * MB) as source, memoryview(source) as view:
        for place in range(0, len(source), MB):
            source[place : place + MB] = os.urandom(MB)
        began = time.monotonic()
        with path.open("xb", buffering=0) as file:
            while written < size:
                written += file.write(view[: size - written])
        sync_file(path)
        took_ms = _since(began)
    path.unlink()
    return took_ms


def _copy_ms(path: Path, folder: Path) -> float:
    target = folder / "copied"
    began = time.monotonic()
    copy_sparse(path, target)
    took_ms = _since(began)
    target.unlink()
    return took_ms


def _since(began: float) -> float:
    return 1000 * (time.monotonic() - began)
