"""Sessions that somebody has open, for commands that ask their owners."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.support.fake_streams import FakeChannel
from tests.unit.outside.forwarded import Branches, forwards_of

from branchpoint_vmruntime.control_ops import handlers_for
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord


@contextmanager
def opened(home: Home, session: SessionRecord, **channels: FakeChannel) -> Generator[None]:
    """A session that another thread has open, with machines by the names of their branches."""
    serving, ending = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def own() -> None:
        async with (
            forwards_of(Branches(**channels)) as forwards,
            ControlServer(home.control(session.id), handlers_for(lambda: session, forwards)),
        ):
            serving.set()
            await ending.wait()

    def run() -> None:
        loop.run_until_complete(own())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert serving.wait(timeout=120), "the owner did not begin to serve"
        yield
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
