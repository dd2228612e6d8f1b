"""A server's wire for a program that is slow to begin, as they are in an emulated machine."""

import asyncio
from collections.abc import Awaitable, Callable

from branchpoint_vmruntime.errors import OutsideError
from branchpoint_vmruntime.outside.wire import CHUNK_BYTES, Wire


class Renewable:
    """A wire that is opened anew if the server ends it before either side has said anything.

    Nothing has been passed on by then, so that nothing can be done twice. The other connection is
    opened by `again` when the program begins; if it has not for so many seconds, or is done
    without a word, it sees the end as it was.
    """

    def __init__(
        self, wire: Wire, again: Callable[[], Awaitable[Wire]], *, patience_s: float
    ) -> None:
        self._wire = wire
        self._again = again
        self._patience_s = patience_s
        self._is_settled = False
        self._is_done = False
        self._heard = asyncio.Event()
        self._usable = asyncio.Event()
        self._usable.set()

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end. OutsideError."""
        try:
            data = await self._wire.read(limit)
        except OutsideError:
            if not await self._renewed():
                raise
        else:
            if data or not await self._renewed():
                self._is_settled = True
                return data
        return await self._wire.read(limit)

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room. OutsideError."""
        self._heard.set()
        await self._usable.wait()
        await self._wire.write(data)

    async def finish(self) -> None:
        """Say that no more will be sent."""
        self._is_done = True
        self._heard.set()
        await self._usable.wait()
        await self._wire.finish()

    async def close(self) -> None:
        """End it both ways, at once."""
        await self._wire.close()

    async def _renewed(self) -> bool:
        """Whether another connection has taken the place of this one, which has just ended."""
        if self._is_settled or self._heard.is_set():
            return False
        self._is_settled = True
        self._usable.clear()
        try:
            return await self._begins() and await self._renew()
        finally:
            self._usable.set()

    async def _begins(self) -> bool:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._heard.wait()
        except TimeoutError:
            return False
        return not self._is_done

    async def _renew(self) -> bool:
        await self._wire.close()
        self._wire = await self._again()
        return True
