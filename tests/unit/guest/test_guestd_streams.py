"""guestd and streamd as processes: brought to rest, woken, and lost."""

import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.front_end import in_a_loop
from tests.unit.guest.test_guestd import LoneGuestd, guestd, wake

from branchpoint_vmruntime.errors import MachineEndedError
from branchpoint_vmruntime.stream_link import StreamLink


@asynccontextmanager
async def with_streams(folder: Path) -> AsyncGenerator[tuple[LoneGuestd, StreamLink]]:
    """A guestd with a streamd beside it, and the links to both."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003
    link = await StreamLink.connect(ours, folder / "console.log")
    try:
        async with guestd(folder, streams=theirs) as it:
            link.resume()
            yield it, link
    finally:
        link.fail(MachineEndedError("the test is over"))


def streamd_of(it: LoneGuestd) -> int:
    """The process id of the streamd beside guestd."""
    (child,) = Path(f"/proc/{it.process.pid}/task/{it.process.pid}/children").read_text().split()
    return int(child)


async def echoed(link: StreamLink, data: bytes) -> bytes:
    """What comes back of data that is echoed."""
    stream = await link.open("echo")
    await stream.write(data)
    await stream.finish()
    back = b""
    while piece := await stream.read():
        back += piece
    await stream.close()
    return back


@in_a_loop
async def test_a_freeze_drains_the_streams_and_a_thaw_lets_them_go_on(tmp_path: Path) -> None:
    async with with_streams(tmp_path) as (it, link):
        stream = await link.open("echo")
        await stream.write(b"before")
        reply = await it.link.ask("freeze", {"sent": 0, "streamed": link.quiesce()}, timeout_s=120)
        await link.wait_received(reply["streamed"])
        assert link.received == reply["streamed"]
        await it.link.ask("thaw", timeout_s=120)
        link.resume()
        assert await stream.read() == b"before"


@in_a_loop
async def test_a_woken_guest_takes_streams_of_its_new_generation(tmp_path: Path) -> None:
    async with with_streams(tmp_path) as (it, link):
        await it.link.ask("freeze", {"sent": 0, "streamed": link.quiesce()}, timeout_s=120)
        link.generation = 7
        await wake(it, 7, "{}")
        link.resume()
        assert await echoed(link, b"anew") == b"anew"


@in_a_loop
async def test_a_streamd_that_is_lost_is_told_and_made_anew_by_a_waking(tmp_path: Path) -> None:
    async with with_streams(tmp_path) as (it, link):
        os.kill(streamd_of(it), signal.SIGKILL)
        assert await it.events.get() == {"op": "streams-ended"}
        reply = await it.link.ask("freeze", {"sent": 0, "streamed": -1}, timeout_s=120)
        assert reply["streamed"] is None
        link.generation = 7
        await wake(it, 7, "{}")
        link.resume()
        assert await echoed(link, b"anew") == b"anew"
        assert await it.is_alive()
