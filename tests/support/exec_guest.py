"""A guest whose commands run on this host: its end is the real one, streams are in memory."""

import asyncio
import contextlib
import socket

from tests.support.exec_host import Serving
from tests.support.fake_streams import FakeChannel, FakeEnd

from branchpoint_vmruntime.outside.piping import join


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
