"""A guest whose commands run on this host: its end is the real one, streams are in memory."""

import asyncio
import contextlib
import socket
from contextlib import nullcontext
from typing import Never

from tests.support.exec_host import Serving
from tests.support.fake_streams import FakeChannel, FakeEnd

from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.outside.piping import join
from branchpoint_vmruntime.session import Turn


async def executes(end: FakeEnd) -> None:
    """What is at the guest's end of a stream opened for `exec`, for `FakeChannel.on_open`."""
    assert tuple(end.purpose) == ("exec",)
    end.accept()
    ours, theirs = socket.socketpair()
    serving = Serving(theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        with contextlib.suppress(ExceptionGroup, OSError):
            await join(reader, writer, end)
    finally:
        writer.transport.abort()
        await asyncio.to_thread(serving.join)


def guest() -> FakeChannel:
    """The streams of a machine whose commands run here."""
    return FakeChannel(executes)


class OneBranch:
    """A branch whose machine's commands run here, and the session that has no other."""

    def __init__(self) -> None:
        self.name = "main"
        self.state = BranchState.LIVE
        self.streams = guest()
        self.turn: Turn = nullcontext

    @property
    def current(self) -> "OneBranch":
        return self

    def branch(self, name: str) -> "OneBranch":
        if name != self.name:
            raise UnknownNameError("branch", name, (self.name,))
        return self

    async def awake(self, name: str | None = None) -> "OneBranch":
        assert name == self.name
        self.state = BranchState.LIVE
        self.streams = guest()
        return self

    async def lose_machine(self, state: BranchState) -> None:
        """Its machine ends, as the session wants it."""
        self.state, left = state, self.streams
        if state is BranchState.LIVE:
            self.streams = guest()
        await left.end()


class Unlimited:
    """A budget that no branch is ever over."""

    def require(self, branch: str) -> None:
        """Every branch may run on."""

    async def until_over(self, branch: str) -> Never:
        """For ever."""
        while True:
            await asyncio.Event().wait()
