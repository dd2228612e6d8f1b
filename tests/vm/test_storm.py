"""Checkpoints at random moments of a storm of output: restored, each goes on at the very next line.

Of what a kernel prints nothing is lost, said twice or torn, on whichever side of a checkpoint.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import KernelChannel
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId, Moment

pytestmark = pytest.mark.vm

MOMENTS = 4
RESTORES = 20
LINES = 1000
PATIENCE_S = 120.0

# 10 000 lines a second, or as many as the machine can.
STORM = """
import time
number = 0
while True:
    due = time.monotonic() + 0.01
    for _ in range(100):
        print(f"{number:07} {number * 7919:011}")
        number += 1
    time.sleep(max(0, due - time.monotonic()))
"""


def lines_from(number: int, size: int) -> str:
    """As much of the storm as that, from a line on."""
    width = len("0000000 00000000000\n")
    last = number + size // width + 1
    return "".join(f"{each:07} {each * 7919:011}\n" for each in range(number, last))[:size]


@dataclass
class Heard:
    """What one machine has said since it woke: all of its text, and its length at each message."""

    text: str = ""
    lengths: list[int] = field(default_factory=lambda: [0])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, kernel: KernelChannel) -> None:
        """Take in messages until cancelled."""
        while True:
            channel, header, _, _, content, *_ = await kernel.receive()
            if channel == b"iopub" and json.loads(header)["msg_type"] == "stream":
                self.text += json.loads(content)["text"]
            self.lengths.append(len(self.text))
            self.arrived.set()

    async def until(self, condition: Callable[["Heard"], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self):
                self.arrived.clear()
                await self.arrived.wait()


@asynccontextmanager
async def heard(branch: OwnedBranch) -> AsyncGenerator[Heard]:
    """Everything a branch's present machine says."""
    hearing = Heard()
    task = asyncio.create_task(hearing.listen(branch.kernel))
    try:
        yield hearing
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def start_storm(kernel: KernelChannel) -> None:
    """Have a cell print without end."""
    header = {"msg_id": "storm", "msg_type": "execute_request", "version": "5.3"}
    header |= {"session": "s", "username": "u", "date": "2026-01-01T00:00:00Z"}
    content = json.dumps({"code": STORM}).encode()
    await kernel.send([b"shell", json.dumps(header).encode(), b"{}", b"{}", content])


def counting(
    branch: Callable[[], OwnedBranch], counts: list[int]
) -> Callable[..., Awaitable[Moment]]:
    """A witness that notes how many messages had arrived when the machine was at rest."""

    async def witness(_: str) -> Moment:
        counts.append(branch().kernel.received)
        return Moment()

    return witness


@in_a_loop
async def test_every_restore_of_a_storm_goes_on_at_the_next_line(home: Home) -> None:
    chance = random.Random(593)
    counts: list[int] = []
    said: dict[CheckpointId, int] = {}
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        session.witness = counting(lambda: session.current, counts)
        async with heard(session.current) as first:
            await start_storm(session.current.kernel)
            await first.until(lambda heard: bool(heard.text))
            for _ in range(MOMENTS):
                await asyncio.sleep(chance.uniform(0.1, 0.8))
                checkpoint = await session.checkpoint()
                await first.until(lambda heard: len(heard.lengths) > counts[-1])
                said[checkpoint.id] = first.lengths[counts[-1]]
            moments = [each for each in session.checkpoints() if each.id in said]
        assert first.text == lines_from(0, len(first.text))
        for _ in range(RESTORES):
            moment = chance.choice(moments)
            await session.rollback(moment, safety=False)
            async with heard(session.current) as restored:
                await restored.until(lambda heard: heard.text.count("\n") > LINES)
            whole = first.text[: said[moment.id]] + restored.text
            assert whole == lines_from(0, len(whole))
