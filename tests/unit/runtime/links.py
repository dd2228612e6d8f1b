"""Links to a guest that is made up."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socketpair
from typing import Any

from tests.support.fake_guest import FakeGuest, fake_guest

from branchpoint_vmruntime.errors import MachineEndedError
from branchpoint_vmruntime.link import ControlLink, KernelLink
from branchpoint_vmruntime.stream_link import StreamLink

CONSOLE = Path("console.log")


@dataclass
class Ends:
    """Both ends of all links, and the events that came over the first."""

    control: ControlLink
    kernel: KernelLink
    streams: StreamLink
    guest: FakeGuest
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@asynccontextmanager
async def linked() -> AsyncGenerator[Ends]:
    """Links as they are when a machine has been started, the kernel's still closed to senders."""
    pairs = [socketpair() for _ in range(3)]
    (control, kernel, streams), theirs = zip(*pairs, strict=True)
    for sock in (control, kernel, streams):
        sock.setblocking(False)  # noqa: FBT003
    events: list[dict[str, Any]] = []
    async with fake_guest(*theirs) as guest:
        ends = Ends(
            await ControlLink.open(control, events.append, CONSOLE),
            await KernelLink.open(kernel, "incarnation-1"),
            await StreamLink.connect(streams, CONSOLE),
            guest,
            events,
        )
        ends.streams.resume()
        try:
            yield ends
        finally:
            gone = MachineEndedError("the test is over")
            ends.control.fail(gone)
            ends.kernel.fail(gone)
            ends.streams.fail(gone)


async def synchronise(ends: Ends) -> None:
    """Until all the guest has said on the control port so far has been taken in."""
    await ends.control.ask("ping", timeout_s=120)
