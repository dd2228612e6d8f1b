"""Forks, rollbacks and checkpoint pauses, against what QEMU alone takes for the same machine."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from branchpoint_cli.bench.bare import copy_ms, spawn_and_load_ms, stop_and_save_ms
from branchpoint_cli.bench.figures import Figure
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.owned_session import OwnedSession

MB = 1 << 20
DIRTY_MB = (2, 50, 200)
FAN_OUT = (3, 10)


@dataclass(frozen=True, slots=True)
class Bench:
    """An open session, how often to measure, and a folder for scratch files."""

    session: OwnedSession
    runs: int
    scratch: Path


async def first_reply_ms(bench: Bench, count: int, start: Checkpoint) -> tuple[float, float]:
    """Fork and have each answer `1+1`: until the slowest was awake, and until all had answered."""
    began = time.monotonic()
    report = await bench.session.fork(count, start=start)
    forks = [bench.session.branch(branch.name) for branch in report]
    await asyncio.gather(*(fork.run("1+1") for fork in forks))
    answered_ms = 1000 * (time.monotonic() - began)
    awake_ms = max(fork.cost.awake_ms for fork in forks)
    await bench.session.drop([fork.name for fork in forks])
    return awake_ms, answered_ms


async def forks(bench: Bench, start: Checkpoint) -> list[Figure]:
    """One fork against bare QEMU, alternating; then several at once."""
    saved = await bench.session.materialise(start)
    awake: list[float] = []
    answered: list[float] = []
    bare: list[float] = []
    for _ in range(bench.runs):
        bare.append(await spawn_and_load_ms(saved, bench.scratch))
        one = await first_reply_ms(bench, 1, start)
        awake.append(one[0])
        answered.append(one[1])
    figures = [
        Figure(
            name="fork x1 to awake",
            unit="ms",
            values=tuple(awake),
            floor_name="bare QEMU spawn and load",
            floor=tuple(bare),
            bound="at most 3",
        ),
        Figure(name="fork x1 to first reply", unit="ms", values=tuple(answered)),
    ]
    for count in FAN_OUT:
        many = [(await first_reply_ms(bench, count, start))[1] for _ in range(bench.runs)]
        name = f"fork x{count} at once to the last first reply"
        figures.append(Figure(name=name, unit="ms", values=tuple(many)))
    return figures


async def rollbacks(bench: Bench, start: Checkpoint) -> list[Figure]:
    """A rollback to its first reply against a fork to its first reply, alternating."""
    forked: list[float] = []
    kept: list[float] = []
    plain: list[float] = []
    for _ in range(bench.runs):
        forked.append((await first_reply_ms(bench, 1, start))[1])
        for safety, times in ((True, kept), (False, plain)):
            began = time.monotonic()
            await bench.session.rollback(start, safety=safety)
            await bench.session.current.run("1+1")
            times.append(1000 * (time.monotonic() - began))
    against = {"floor_name": "fork x1 to first reply", "bound": "at most 1.2"}
    return [
        Figure(
            name=f"rollback to first reply{note}",
            unit="ms",
            values=tuple(times),
            floor=tuple(forked),
            **against,
        )
        for note, times in ((", safety checkpoint kept", kept), (", --no-safety", plain))
    ]


async def pauses(bench: Bench) -> list[Figure]:
    """A checkpoint's pause with so much written, against stop, save and copy of as many bytes."""
    figures: list[Figure] = []
    for size_mb in DIRTY_MB:
        await bench.session.rollback("base", safety=False)
        await bench.session.current.run(
            f"block = bytearray({size_mb} << 20); block[::4096] = bytes([1]) * ({size_mb} << 8)"
        )
        stopped: list[float] = []
        paused: list[float] = []
        floor: list[float] = []
        dirty: list[float] = []
        for _ in range(bench.runs):
            machine = bench.session.current.machine
            floor_ms = await stop_and_save_ms(machine, bench.scratch)
            saved = await bench.session.checkpoint()
            floor.append(floor_ms + copy_ms(saved.cost.dirty_bytes))
            stopped.append(saved.cost.stopped_ms)
            paused.append(saved.cost.paused_ms)
            dirty.append(saved.cost.dirty_bytes / MB)
        what = f"{size_mb} MB block, {sorted(dirty)[len(dirty) // 2]:.0f} MB dirty"
        for name, times in (("vCPUs stopped", stopped), ("processes paused", paused)):
            figures.append(
                Figure(
                    name=f"checkpoint, {name}, {what}",
                    unit="ms",
                    values=tuple(times),
                    floor_name="stop, save devices, copy as many bytes",
                    floor=tuple(floor),
                    bound="at most 2",
                )
            )
    return figures


async def sizes(bench: Bench, start: Checkpoint) -> list[Figure]:
    """What a fork takes of memory, and a checkpoint of the disk."""
    report = await bench.session.fork(3, start=start)
    forks = [bench.session.branch(branch.name) for branch in report]
    await asyncio.gather(*(fork.run("1+1") for fork in forks))
    uses = [use for fork in forks if (use := fork.memory()) is not None]
    await bench.session.drop([fork.name for fork in forks])
    costs = [c.cost for c in bench.session.checkpoints() if c.parent is not None]
    disk = tuple(cost.stored_bytes / MB for cost in costs)
    own = tuple(use.own_bytes / MB for use in uses)
    shared = tuple(use.shared_bytes / MB for use in uses)
    return [
        Figure(name="memory of a fork that has answered, its own", unit="MB", values=own),
        Figure(name="memory of a fork that has answered, shared", unit="MB", values=shared),
        Figure(name="bytes on disk of a checkpoint", unit="MB", values=disk),
    ]
