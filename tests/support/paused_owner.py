"""`python -P -m tests.support.paused_owner HOME`: pauses a session twice, and is killed then.

Before that, what was seen of it is written as JSON, as `Seen` says. Its last pause is a week old,
as the machine has it.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.guest_server import PORT, SERVER, ask
from tests.support.live_kernel import qemu_processes

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.reports import ResumeReport

KEY = "paused"
IDLE_OFF = "idle_pause: off"
AWAY_S = 3.0
PATIENCE_S = 120.0
_ROOMY_BYTES = 16 << 30
# The counter is in a shell variable: it is written down and never read back.
TICKER = """#!/bin/sh
i=0
while true; do
i=$((i+1))
echo "$i $(date -u +%s.%N) $$" >> /tmp/tick.log
sleep 1
done
"""
BEGIN = """
cat > /tmp/tick.sh && chmod +x /tmp/tick.sh
setsid nohup /tmp/tick.sh </dev/null >/dev/null 2>&1 &
"""


@dataclass(frozen=True)
class Tick:
    """A line of the log."""

    count: int
    at_s: float
    pid: int


@dataclass(frozen=True)
class Seen:
    """Of a machine that was paused, and resumed by two connections to a forward at once.

    `servers` are the processes that answered, before and then; `away_s` is of each resume. The rest
    is of the first pause: what it gave back, and what there was meanwhile.
    """

    servers: list[int]
    away_s: list[float]
    freed_bytes: int
    has_memory: bool
    processes: list[int]


async def ticks(session: OwnedSession) -> list[Tick]:
    """The log so far, but for a line that is being written."""
    log = (await session.current.execute(["cat", "/tmp/tick.log"])).stdout
    lines = [line.split() for line in log.splitlines(keepends=True) if line.endswith("\n")]
    return [Tick(int(count), float(at_s), int(pid)) for count, at_s, pid in lines]


async def ticks_after(session: OwnedSession, before: int) -> list[Tick]:
    """The log once the counter has gone on by two."""
    async with asyncio.timeout(PATIENCE_S):
        while not (there := await ticks(session)) or there[-1].count < before + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    return there


async def begin_to_count(session: OwnedSession) -> None:
    """Start the counter."""
    begun = await session.current.execute(["sh", "-c", BEGIN], stdin=TICKER)
    assert begun.status == 0, begun


async def begin(session: OwnedSession) -> int:
    """Start the counter and a server, and forward the server's port; that port on the host."""
    await begin_to_count(session)
    served = await session.current.run(SERVER)
    assert served.status == "ok", served
    return (await session.outside.forwards.add(PORT)).host_port


async def pause_twice(session: OwnedSession, home: Home) -> Seen:
    """Pause, have two connections at once resume it, and pause again with its clock a week back.

    It is resumed once its memory was brought together, which happens by itself.
    """
    resumed: list[ResumeReport] = []
    session.on_resumed = resumed.append
    port = await begin(session)
    servers = [(await asyncio.to_thread(ask, port))["pid"]]
    await ticks_after(session, 1)
    paused = await session.pause()
    memory, processes = session.current.memory(), qemu_processes(home.root)
    image = home.flat / session.record.id / f"{paused.checkpoint.id}.mem"
    # On a disk that is short it is not.
    roomy = shutil.disk_usage(home.root).free > _ROOMY_BYTES
    async with asyncio.timeout(PATIENCE_S):
        while roomy and not image.exists():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.2)
    await asyncio.sleep(AWAY_S)
    asked = [asyncio.to_thread(ask, port) for _ in range(2)]
    servers += [answer["pid"] for answer in await asyncio.gather(*asked)]
    away_s = [report.away_s for report in resumed]
    await ticks_after(session, (await ticks(session))[-1].count)
    # What is saved now was last at work a week ago, as far as it can tell.
    await session.current.execute(["date", "-s", "7 days ago"])
    await ticks_after(session, (await ticks(session))[-1].count)
    await session.pause()
    return Seen(
        servers=servers,
        away_s=away_s,
        freed_bytes=paused.freed_bytes,
        has_memory=memory is not None,
        processes=processes,
    )


async def own(home: Home) -> None:
    """Own it, and be killed while it is open."""
    async with (
        Runtime(home) as runtime,
        runtime.session(Manifest.parse(IDLE_OFF), key=KEY) as session,
    ):
        seen = await pause_twice(session, home)
        sys.stdout.write(json.dumps(asdict(seen)))
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    asyncio.run(own(Home(root, root / "run")))
