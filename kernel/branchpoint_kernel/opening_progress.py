"""What goes on while a session opens, for a cell that waits for its machine."""

import asyncio
from collections.abc import AsyncGenerator


class OpeningProgress:
    """Implements `image.progress.Progress`: a line for each step. May be called in any thread.

    Made in the loop in which it is listened to.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps: list[str] = []
        self._changed = asyncio.Event()

    def step(self, title: str) -> None:
        """A step begins."""
        self._loop.call_soon_threadsafe(self._note, title)

    def advance(self, fraction: float) -> None:
        """Nobody is told of parts: a cell's output only grows."""

    def done(self, summary: str) -> None:
        """Nobody is told of ends: the next step says as much."""

    async def steps(self) -> AsyncGenerator[str]:
        """The present step, and each one that begins after it, for ever."""
        told = max(0, len(self._steps) - 1)
        while True:
            while told < len(self._steps):
                told += 1
                yield self._steps[told - 1]
            self._changed.clear()
            await self._changed.wait()

    def _note(self, title: str) -> None:
        self._steps.append(title)
        self._changed.set()
