"""What the way out of a machine and into it costs: throughput, latency, memory, and for cells.

Held against the same client and server without the way: both in the guest, and both on the host.
"""

import asyncio
import gc
import time
from pathlib import Path

from branchpoint_cli.bench.edge import Ask, Edge, edge
from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import MB
from branchpoint_cli.bench.proxy import p95
from branchpoint_cli.bench.taken import resident_mb
from branchpoint_vmruntime import Runtime
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.streams import Stream

BULK_MB = 64
BULK = BULK_MB * MB
SMALL = 1024
ROUNDS = 3
STREAMS = 200
# What the guest may send of one stream before the host has read any, less the head of an answer.
UNREAD = 256 * 1024 - 1024
SETTLED_S = 1.0
LOOK_AGAIN_S = 0.01
IN_GUEST = "guest to guest"
ON_HOST = "host to host"
# Quicker than a download from outside, so that enough cells fall into it.
INNER_BULK = 4 * BULK


async def outside(runtime: Runtime, runs: int) -> list[Figure]:
    """All of it, over a session of its own."""
    async with edge(runtime) as there:
        return [
            *await throughput(there, min(runs, ROUNDS)),
            *await latency(there, runs),
            *await cells_beside_a_download(there, min(runs, ROUNDS)),
            *await memory(there),
        ]


async def throughput(there: Edge, runs: int) -> list[Figure]:
    """So many MB down and up, by each way in turn."""
    names = ("inner down", "egress down", "inner up", "egress up")
    outward = [
        Ask(way="direct", port=there.inside, size=BULK),
        Ask(way="proxy", port=there.plain, size=BULK),
        Ask(way="direct", port=there.inside, size=BULK, method="PUT"),
        Ask(way="proxy", port=there.plain, size=BULK, method="PUT"),
    ]
    names_on_host = ("forward down", "forward up", "host down")
    inward = [
        Ask(way="direct", port=there.forwarded, size=BULK),
        Ask(way="direct", port=there.forwarded, size=BULK, method="PUT"),
        Ask(way="direct", port=there.plain, size=BULK),
    ]
    file = there.scratch / "bulk"
    await asyncio.to_thread(file.write_bytes, bytes(BULK))
    speeds: dict[str, list[float]] = {name: [] for name in (*names, *names_on_host, "put", "get")}
    for _ in range(runs):
        for name, seconds in zip(names, await there.in_guest(outward), strict=True):
            speeds[name] += [BULK_MB / it for it in seconds]
        for name, seconds in zip(names_on_host, await there.on_host(inward), strict=True):
            speeds[name] += [BULK_MB / it for it in seconds]
        put_s, get_s = await _file_s(there, file)
        speeds["put"].append(BULK_MB / put_s)
        speeds["get"].append(BULK_MB / get_s)
    rows = (
        ("download, through egress", "egress down", "inner down", IN_GUEST),
        ("upload, through egress", "egress up", "inner up", IN_GUEST),
        ("download from the guest, through a forward", "forward down", "inner down", IN_GUEST),
        ("upload to the guest, through a forward", "forward up", "inner up", IN_GUEST),
        ("`%put`", "put", "inner up", IN_GUEST),
        ("`%get`", "get", "inner down", IN_GUEST),
        (f"download, {IN_GUEST}", "inner down", "host down", ON_HOST),
    )
    return [
        Figure(
            name=f"{what}, {BULK_MB} MB",
            unit="MB/s",
            values=tuple(speeds[ours]),
            floor_name=against,
            floor=tuple(speeds[floor]),
        )
        for what, ours, floor, against in rows
    ]


async def _file_s(there: Edge, file: Path) -> tuple[float, float]:
    transfers, streams = there.session.outside.transfers, there.session.current.streams
    put = await transfers.put(streams, file, "/root/bulk")
    got = await transfers.get(streams, put.path, there.scratch / "bulk-again")
    return put.seconds, got.seconds


async def latency(there: Edge, runs: int) -> list[Figure]:
    """One small answer over a new connection, by each way in turn, at the median and at p95."""
    names = ("inner", "plain", "tunnel", "unseen", "seen")
    outward = [
        Ask(way="direct", port=there.inside, size=SMALL),
        Ask(way="proxy", port=there.plain, size=SMALL),
        Ask(way="tunnel", port=there.plain, size=SMALL),
        Ask(way="tunnel+tls", port=there.unseen, size=SMALL),
        Ask(way="tunnel+tls", port=there.seen, size=SMALL),
    ]
    names_on_host = ("forward", "host", "host tls")
    inward = [
        Ask(way="direct", port=there.forwarded, size=SMALL),
        Ask(way="direct", port=there.plain, size=SMALL),
        Ask(way="direct+tls", port=there.unseen, size=SMALL),
    ]
    times: dict[str, list[float]] = {name: [] for name in (*names, *names_on_host)}
    for _ in range(ROUNDS):
        # The first of a client's own warms it up.
        for name, seconds in zip(names, await there.in_guest(outward, runs + 1), strict=True):
            times[name] += [1000 * it for it in seconds[1:]]
        for name, seconds in zip(names_on_host, await there.on_host(inward, runs + 1), strict=True):
            times[name] += [1000 * it for it in seconds[1:]]
    rows = (
        ("through egress, plain HTTP", "plain", "inner", IN_GUEST),
        ("through egress, by CONNECT", "tunnel", "inner", IN_GUEST),
        ("through a forward", "forward", "inner", IN_GUEST),
        (IN_GUEST, "inner", "host", ON_HOST),
        ("through egress, HTTPS unread", "unseen", "host tls", f"HTTPS, {ON_HOST}"),
        ("through egress, HTTPS inspected", "seen", "unseen", "HTTPS unread"),
    )
    return [
        Figure(
            name=f"GET of 1 KB {what}, {which}",
            unit="ms",
            values=values,
            floor_name=against,
            floor=held_against,
        )
        for what, ours, floor, against in rows
        for which, values, held_against in (
            ("p50", tuple(times[ours]), tuple(times[floor])),
            ("p95", (p95(times[ours]),), (p95(times[floor]),)),
        )
    ]


async def cells_beside_a_download(there: Edge, runs: int) -> list[Figure]:
    """A cell while a program beside it downloads, from outside and within, and while none does."""
    outer = Ask(way="proxy", port=there.plain, size=BULK)
    inner = Ask(way="direct", port=there.inside, size=INNER_BULK)
    idle: list[float] = []
    beside_outer: list[float] = []
    beside_inner: list[float] = []
    for _ in range(runs):
        idle += [await _cell_ms(there) for _ in range(10)]
        beside_outer += await _cells_during(there, outer)
        beside_inner += await _cells_during(there, inner)
    name = "cell `1+1` while a download runs"
    return [
        Figure(
            name=f"{name} {what}",
            unit="ms",
            values=tuple(values),
            floor_name="with nothing beside it",
            floor=tuple(idle),
        )
        for what, values in (("through egress", beside_outer), (IN_GUEST, beside_inner))
    ]


async def _cells_during(there: Edge, bulk: Ask) -> list[float]:
    """The cells that were run from begin to end while the bytes came."""
    ledger = there.session.outside.ledger
    before = ledger.position()
    # What it asks for first is in the ledger, which tells that it has begun.
    first = Ask(way="proxy", port=there.plain, size=1)
    downloading = asyncio.create_task(there.in_guest([first, bulk]))
    while ledger.position() == before and not downloading.done():
        await asyncio.wait([downloading], timeout=LOOK_AGAIN_S)
    times: list[float] = []
    while not downloading.done():
        times.append(await _cell_ms(there))
    await downloading
    if len(times) < 2:
        raise MachineError("a download was over before a cell was", hint="nothing was measured")
    return times[:-1]


async def _cell_ms(there: Edge) -> float:
    started = time.monotonic()
    await there.evaluate("1+1")
    return 1000 * (time.monotonic() - started)


async def memory(there: Edge) -> list[Figure]:
    """What this process holds more with many streams: idle ones, and ones with much unread."""
    await there.evaluate(f"held = [peers.connect('tunnel', {there.plain})]")
    before_mb = await _settled_mb()
    await there.evaluate(
        f"held += [peers.connect('tunnel', {there.plain}) for _ in range({STREAMS})]"
    )
    idle_mb = await _settled_mb()
    await there.evaluate("for each in held: each.close()")
    between_mb = await _settled_mb()
    full_mb: list[float] = []
    after_mb: list[float] = []
    # Twice, since what the allocator keeps looks like a leak until it is used again.
    for _ in range(2):
        full_mb.append(await _filled_mb(there))
        after_mb.append(await _settled_mb())
    rows = (
        (f"with {STREAMS} tunnels that say nothing", [idle_mb], before_mb),
        (f"with {STREAMS} streams of {UNREAD >> 10} KB unread, twice", full_mb, between_mb),
        ("after they were closed, twice", after_mb, between_mb),
    )
    return [
        Figure(
            name=f"memory of the host process {what}",
            unit="MB",
            values=tuple(values),
            floor_name="before",
            floor=(floor,),
        )
        for what, values, floor in rows
    ]


async def _filled_mb(there: Edge) -> float:
    """What it takes with many streams that nobody reads, which are then closed."""
    streams = [await _unread(there) for _ in range(STREAMS)]
    full_mb = await _settled_mb()
    for stream in streams:
        await stream.close()
    return full_mb


async def _unread(there: Edge) -> Stream:
    stream = await there.session.current.streams.open("connect", str(there.inside))
    await stream.write(f"GET /{UNREAD} HTTP/1.1\r\n\r\n".encode())
    return stream


async def _settled_mb() -> float:
    """What this process takes of memory, once that is the same for a moment."""
    gc.collect()
    last = resident_mb()
    while True:
        await asyncio.sleep(SETTLED_S)
        now = resident_mb()
        if abs(now - last) < 0.01 * now:
            return now
        last = now
