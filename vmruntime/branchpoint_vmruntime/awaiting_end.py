"""Waits for the end of a process that is no child of this one."""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def process_descriptor(pid: int) -> Generator[int | None]:
    """A descriptor that stays that process's even if its number goes to another.

    None if it has gone already.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def has_ended(descriptor: int | None, *, timeout_s: float) -> bool:
    """Whether the process has gone, by then at the latest."""
    if descriptor is None:
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    return True
