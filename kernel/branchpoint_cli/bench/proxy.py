"""What the proxy adds to a cell: the same request through it, and sent by guestd itself."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import Bench
from branchpoint_kernel.__main__ import serve
from branchpoint_kernel.relay import Opened
from branchpoint_kernel.sockets import Connection

CODE = "1+1"
WARM_UP = 5


async def round_trips(bench: Bench) -> list[Figure]:
    """A cell from a Jupyter client to its idle, against guestd's own run on the same machine."""
    through: list[float] = []
    direct: list[float] = []
    async with client_of(bench) as client:
        for number in range(bench.runs * 3 + WARM_UP):
            one, other = await _cell_ms(client), await _run_ms(bench)
            if number >= WARM_UP:
                through.append(one)
                direct.append(other)
    return [
        Figure(
            name=f"cell `{CODE}` through the proxy",
            unit="ms",
            values=tuple(through),
            floor_name="the same request sent by guestd",
            floor=tuple(direct),
            bound="under 10 ms more",
        )
    ]


@asynccontextmanager
async def client_of(bench: Bench) -> AsyncGenerator[AsyncKernelClient]:
    """A Jupyter client of a proxy that serves the session already open."""

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Opened]:
        yield Opened(bench.session, "measured")

    with TemporaryDirectory(prefix="bp-") as folder:
        path = Path(folder) / "c.json"
        write_connection_file(str(path), transport="ipc", ip=f"{folder}/k", key=b"key")
        proxy = asyncio.create_task(serve(Connection.load(path), opening, watched=False))
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


async def _cell_ms(client: AsyncKernelClient) -> float:
    started = time.monotonic()
    asked = client.execute(CODE, store_history=False)
    idle = False
    while not idle:
        message = await client.get_iopub_msg(timeout=60)
        mine = message["parent_header"].get("msg_id") == asked
        idle = mine and message["content"].get("execution_state") == "idle"
    await client.get_shell_msg(timeout=60)
    return 1000 * (time.monotonic() - started)


async def _run_ms(bench: Bench) -> float:
    started = time.monotonic()
    await bench.session.current.run(CODE)
    return 1000 * (time.monotonic() - started)
