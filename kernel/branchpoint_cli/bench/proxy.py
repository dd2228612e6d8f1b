"""What the way through relay and proxy adds, to cells, large displays and interrupts.

Held against the same request sent by guestd itself, and against a stock ipykernel in the same
guest whose client is there too.
"""

import asyncio
import inspect
import json
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from branchpoint_cli.bench import guest_client
from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import Bench
from branchpoint_kernel.__main__ import serve
from branchpoint_kernel.relay import Opened
from branchpoint_kernel.sockets import Connection
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.image.progress import Progress

CODE = guest_client.CELL
WARM_UP = guest_client.WARM_UP
STOCK = "stock ipykernel, client in the guest"
# Through the proxy and in the guest by turns, so that neither has the quieter machine.
ROUNDS = 3
DISPLAYS_A_ROUND = 1
IN_GUEST_S = 600.0

Times = dict[str, list[float]]


async def round_trips(bench: Bench) -> list[Figure]:
    """A cell from a Jupyter client to its idle, against guestd's own run on the same machine."""
    through: list[float] = []
    direct: list[float] = []
    through_proxy: Times = {"cell": [], "display": [], "interrupt": []}
    in_guest: Times = {"cell": [], "display": [], "interrupt": []}
    async with client_of(bench) as client:
        for number in range(bench.runs * 3 + WARM_UP):
            one, other = await _cell_ms(client), await _run_ms(bench)
            if number >= WARM_UP:
                through.append(one)
                direct.append(other)
        for _ in range(ROUNDS):
            add_times(through_proxy, await _times_through(client, bench.runs))
            add_times(in_guest, await _times_in_guest(bench))
    return [
        Figure(
            name=f"cell `{CODE}` through the proxy",
            unit="ms",
            values=tuple(through),
            floor_name="the same request sent by guestd",
            floor=tuple(direct),
            bound="under 10 ms more",
        ),
        *against_stock(through_proxy, in_guest),
    ]


def add_times(all_times: Times, more: Times) -> None:
    """Take in those of another round."""
    for what, times in more.items():
        all_times[what] += times


def against_stock(through: Times, stock: Times) -> list[Figure]:
    """What relay and proxy add, in ms: cells at the median and at p95, displays, interrupts.

    >>> times = {"cell": [2.0, 3.0], "display": [9.0], "interrupt": [5.0]}
    >>> [figure.ratio for figure in against_stock(times, times)]
    [1.0, 1.0, 1.0, 1.0]
    """
    rows = (
        (f"cell `{CODE}`, p50", through["cell"], stock["cell"], ""),
        (f"cell `{CODE}`, p95", [p95(through["cell"])], [p95(stock["cell"])], ""),
        ("display of 128 MB", through["display"], stock["display"], "at most 3"),
        ("interrupt of a sleeping cell", through["interrupt"], stock["interrupt"], ""),
    )
    return [
        Figure(
            name=f"{name}, through the proxy",
            unit="ms",
            values=tuple(ours),
            floor_name=STOCK,
            floor=tuple(theirs),
            bound=bound,
        )
        for name, ours, theirs, bound in rows
    ]


def p95(times: list[float]) -> float:
    """What 95 in 100 do not exceed.

    >>> p95([float(number) for number in range(101)])
    95.0
    """
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


async def _times_through(client: AsyncKernelClient, runs: int) -> Times:
    return {
        "cell": [await _cell_ms(client) for _ in range(runs)],
        "display": [await _cell_ms(client, guest_client.DISPLAY) for _ in range(DISPLAYS_A_ROUND)],
        "interrupt": [await _interrupt_ms(client) for _ in range(runs)],
    }


async def _times_in_guest(bench: Bench) -> Times:
    source = inspect.getsource(guest_client)
    counts = [str(count) for count in (bench.runs, DISPLAYS_A_ROUND, bench.runs)]
    done = await bench.session.current.execute(
        ["python3", "-P", "-c", source, *counts], timeout_s=IN_GUEST_S
    )
    if done.status:
        raise MachineError(f"the client in the guest ended with {done.status}: {done.stderr}")
    return json.loads(done.stdout)


@asynccontextmanager
async def client_of(bench: Bench) -> AsyncGenerator[AsyncKernelClient]:
    """A Jupyter client of a proxy that serves the session already open."""

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        yield Opened(bench.session, "measured")

    with TemporaryDirectory(prefix="bp-") as folder:
        path = Path(folder) / "c.json"
        write_connection_file(str(path), transport="ipc", ip=f"{folder}/k", key=b"key")
        proxy = asyncio.create_task(serve(Connection.load(path), opening))
        client = AsyncKernelClient(connection_file=str(path))
        client.load_connection_file()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            yield client
        finally:
            client.shutdown()
            await asyncio.wait([proxy], timeout=5)
            client.stop_channels()


async def _cell_ms(client: AsyncKernelClient, code: str = CODE) -> float:
    started = time.monotonic()
    await _until_idle(client, client.execute(code, store_history=False))
    return 1000 * (time.monotonic() - started)


async def _interrupt_ms(client: AsyncKernelClient) -> float:
    asked = client.execute(guest_client.SLEEP, store_history=False)
    while (await client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
        pass
    await asyncio.sleep(guest_client.ASLEEP_S)
    started = time.monotonic()
    client.control_channel.send(client.session.msg("interrupt_request", {}))
    await _until_idle(client, asked)
    return 1000 * (time.monotonic() - started)


async def _until_idle(client: AsyncKernelClient, asked: str) -> None:
    idle = False
    while not idle:
        message: dict[str, Any] = await client.get_iopub_msg(timeout=120)
        mine = message["parent_header"].get("msg_id") == asked
        idle = mine and message["content"].get("execution_state") == "idle"
    await client.get_shell_msg(timeout=60)


async def _run_ms(bench: Bench) -> float:
    started = time.monotonic()
    await bench.session.current.run(CODE)
    return 1000 * (time.monotonic() - started)
