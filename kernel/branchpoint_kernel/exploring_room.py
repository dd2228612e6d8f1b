"""Waits for room for one fork more of an exploration, while there is any prospect of it."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

# Room comes with memory that others give back, which nothing tells us of.
LOOK_FOR_ROOM_S = 0.5
# How long to hope for it where no fork of an exploration works whose end would give some.
PATIENCE_S = 30.0


class RoomToExplore:
    """Knows which forks of explorations are up; `room` is how many machines more there may be."""

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._exploring: list[str] = []
        self._up: set[str] = set()
        self._hopeless_since_s: float | None = None

    @contextmanager
    def exploring(self, branch: str) -> Generator[None]:
        """While code in that branch explores: it waits for its forks."""
        if not self._exploring:
            self._hopeless_since_s = None
        self._exploring.append(branch)
        try:
            yield
        finally:
            self._exploring.remove(branch)

    @contextmanager
    def taken(self, fork: str) -> Generator[None]:
        """While that fork of an exploration is up."""
        self._up.add(fork)
        try:
            yield
        finally:
            self._up.remove(fork)

    async def wait(self) -> None:
        """Until there is room, or no prospect of any: a fork then fails, and says why."""
        while not self._is_there() and self._may_come():  # noqa: ASYNC110 (nothing tells of room)
            await asyncio.sleep(LOOK_FOR_ROOM_S)

    def _is_there(self) -> bool:
        there = self._room() > 0
        if there:
            self._hopeless_since_s = None
        return there

    def _may_come(self) -> bool:
        # One that explores itself ends no sooner than its own forks, which may need that room.
        if any(fork not in self._exploring for fork in self._up):
            self._hopeless_since_s = None
            return True
        if self._hopeless_since_s is None:
            self._hopeless_since_s = time.monotonic()
        # Those that come next are not to hope as long once more.
        return time.monotonic() - self._hopeless_since_s < PATIENCE_S
