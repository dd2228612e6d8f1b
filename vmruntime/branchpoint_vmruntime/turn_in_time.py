"""A turn that is waited for no longer than whoever asked waits: nothing is done behind them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from branchpoint_vmruntime.errors import SessionBusyError


@asynccontextmanager
async def in_time(
    by: float | None, *turns: Callable[[], AbstractAsyncContextManager[object]]
) -> AsyncGenerator[None]:
    """Enter the turns, one within the other; SessionBusyError once it is later than `by`.

    Each is asked for once the one before it has come: whose they are may change meanwhile.
    `by` is in seconds of the monotonic clock, which all processes of a computer have in common;
    None: however late.
    """
    late = SessionBusyError(
        "something else is under way in that session", hint="ask again once it is done"
    )
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout_at(by):
                for turn in turns:
                    await stack.enter_async_context(turn())
        except TimeoutError as error:
            raise late from error
        # A process that stood still had nothing to wait for when it came to this.
        if by is not None and asyncio.get_running_loop().time() >= by:
            raise late
        yield
