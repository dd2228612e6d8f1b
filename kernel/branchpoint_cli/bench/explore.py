"""What `branchpoint.explore` gains over trying options one after another, rolling back between."""

import time

from jupyter_client.asynchronous.client import AsyncKernelClient

from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import Bench
from branchpoint_cli.bench.proxy import client_of
from branchpoint_vmruntime.errors import BranchpointError

OPTIONS = (1, 2, 3, 4)
RUNS = 3
PATIENCE_S = 600
# About a second of emulated Python for each option.
SET_UP = """
import branchpoint

def work(option):
    total = 0
    for number in range(3_000_000):
        total += number % (option + 1)
    return total
"""


async def explorations(bench: Bench) -> list[Figure]:
    """Four options at once, against the same four one by one with a rollback after each."""
    at_once: list[float] = []
    one_by_one: list[float] = []
    async with client_of(bench) as client:
        await _run_ms(client, SET_UP)
        await _run_ms(client, "%checkpoint unexplored")
        for _ in range(min(bench.runs, RUNS)):
            at_once.append(await _run_ms(client, f"branchpoint.explore(work, {list(OPTIONS)})"))
            one_by_one.append(await _one_by_one_ms(client))
    return [
        Figure(
            name=f"explore of {len(OPTIONS)} options",
            unit="ms",
            values=tuple(at_once),
            floor_name="one after another, a rollback after each",
            floor=tuple(one_by_one),
            bound="less",
        )
    ]


async def _one_by_one_ms(client: AsyncKernelClient) -> float:
    total_ms = 0.0
    for option in OPTIONS:
        total_ms += await _run_ms(client, f"work({option})")
        total_ms += await _run_ms(client, "%rollback unexplored --no-safety")
    return total_ms


async def _run_ms(client: AsyncKernelClient, code: str) -> float:
    started = time.monotonic()
    asked = client.execute(code)
    idle = False
    while not idle:
        message = await client.get_iopub_msg(timeout=PATIENCE_S)
        mine = message["parent_header"].get("msg_id") == asked
        idle = mine and message["content"].get("execution_state") == "idle"
    answer = (await client.get_shell_msg(timeout=PATIENCE_S))["content"]
    if answer["status"] != "ok":
        said = answer.get("evalue", "")
        raise BranchpointError(f"a measured cell failed: {said}", hint="nothing was measured")
    return 1000 * (time.monotonic() - started)
