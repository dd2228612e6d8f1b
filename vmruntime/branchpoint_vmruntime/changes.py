"""Tells whoever shows a session that something of it has changed, and what is being done to it."""

import asyncio
import contextlib
from collections.abc import Generator
from datetime import UTC, datetime

from branchpoint_vmruntime.lineage_view import UnderWay


class Changes:
    """A number that grows with each change; whoever has seen one of them waits for the next."""

    def __init__(self) -> None:
        self.version = 1
        self._changed = asyncio.Event()
        self._under_way: list[UnderWay] = []

    @property
    def under_way(self) -> tuple[UnderWay, ...]:
        """What is being done now, the first begun first."""
        return tuple(self._under_way)

    def note(self) -> None:
        """Something that is shown of the session is not as it was."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    @contextlib.contextmanager
    def doing(self, op: str, branch: str) -> Generator[None]:
        """Something is done to a branch for as long as this is entered."""
        doing = UnderWay(op=op, branch=branch, since=datetime.now(UTC))
        self._under_way.append(doing)
        self.note()
        try:
            yield
        finally:
            self._under_way = [it for it in self._under_way if it is not doing]
            self.note()

    async def wait(self, seen: int, *, timeout_s: float) -> int:
        """The version once it is another than the one that was seen, or at the end of that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.version == seen:
                    await self._changed.wait()
        return self.version
