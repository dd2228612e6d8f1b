"""A session that a thread of this process has open, for commands of other processes to ask."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from branchpoint_vmruntime import Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.owned_session import OwnedSession

Answer = TypeVar("Answer")
_PATIENCE_S = 240.0


class SessionThread:
    """The session, to be used only in its own loop."""

    def __init__(self, home: Home, key: str) -> None:
        self._home = home
        self._key = key
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._opened: Future[OwnedSession] = Future()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.id = self._opened.result(_PATIENCE_S).record.id

    def do(self, work: Callable[[OwnedSession], Coroutine[Any, Any, Answer]]) -> Answer:
        """Do something with it, and wait for that."""
        done = asyncio.run_coroutine_threadsafe(work(self._opened.result()), self._loop)
        return done.result(_PATIENCE_S)

    def close(self) -> None:
        """End it, and its machines."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._own())
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)
        finally:
            self._loop.close()

    async def _own(self) -> None:
        async with Runtime(self._home) as runtime, runtime.session(key=self._key) as session:
            self._opened.set_result(session)
            await self._ending.wait()


@contextmanager
def open_session(home: Home, key: str) -> Generator[SessionThread]:
    """A session under that key, with one fresh machine."""
    session = SessionThread(home, key)
    try:
        yield session
    finally:
        session.close()
