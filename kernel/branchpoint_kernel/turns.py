"""Whose turn it is to change what machines there are: one operation at a time, whoever asks."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Turns:
    """Hands out turns, first come, first served.

    `on_wanted` is called before somebody takes one: whoever has it may give it up.
    """

    def __init__(self, on_wanted: Callable[[], None]) -> None:
        self._on_wanted = on_wanted
        self._lock = asyncio.Lock()
        self._may_pause = False

    @property
    def under_way(self) -> bool:
        """Whether somebody has the turn: machines may stand still."""
        return self._lock.locked()

    @asynccontextmanager
    async def take(self, *, may_pause: bool = False) -> AsyncGenerator[None]:
        """The turn. `may_pause` tells that a machine may have ended, saved, when it is over."""
        self._on_wanted()
        async with self._lock:
            self._may_pause = may_pause
            try:
                yield
            finally:
                self._may_pause = False

    async def wait_settled(self) -> None:
        """Until nothing is under way that may pause a machine: what is sent to it would be lost."""
        while self._may_pause:
            async with self._lock:
                pass
