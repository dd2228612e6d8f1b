"""Two coroutines at a time, of which neither outlives the call."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


async def alongside(main: Coroutine[Any, Any, Result], side: Coroutine[Any, Any, None]) -> Result:
    """What `main` gives. `side` runs until then; if it fails first, that ends both."""
    tasks = asyncio.create_task(main), asyncio.create_task(side)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            tasks[1].result()
        return await tasks[0]
    finally:
        await _end(tasks)


async def together(one: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None]) -> None:
    """Both, until both are done; the first failure ends the other."""
    tasks = asyncio.create_task(one), asyncio.create_task(other)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        await _end(tasks)


class Lasting:
    """Work that goes on when whoever waits for it is cancelled, until it is done or `close`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin it. Wait for it behind a shield, if at all."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def close(self) -> None:
        """Cancel what is still going on, and wait until it has ended."""
        await _end(tuple(self._tasks))

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Nobody may be left to be told how it failed; the ledger has it.
            task.exception()


@asynccontextmanager
async def at_most_idle(seconds: float) -> AsyncGenerator[Callable[[], None]]:
    """TimeoutError once what it gives has not been called for so long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds) as patience:

        def moved() -> None:
            # It may have run out a moment ago, while this was on its way.
            if not patience.expired():
                patience.reschedule(loop.time() + seconds)

        yield moved


async def _end(tasks: tuple[asyncio.Task[Any], ...]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
