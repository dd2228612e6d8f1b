"""How often sides that grow are drawn anew: little of the kernel's time is to go into that."""

import asyncio
import time
from collections.abc import Callable, Sequence

from branchpoint_kernel.columns import Column, as_data

# What is small is drawn this often.
LEAST_REST_S = 0.5
# How long a rest is beside the drawing before it.
RESTS_PER_DRAWING = 10
# What is sent costs this kernel and each page about as much again.
CHARACTERS_A_SECOND = 4_000_000


class Redrawing:
    """Draws sides, and rests the longer the longer that took and the larger it was."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.rest_s = LEAST_REST_S
        self._clock = clock

    def draw(self, sides: Sequence[Column]) -> dict[str, str]:
        """What is displayed of them, by MIME type."""
        began_s = self._clock()
        data = as_data(sides)
        took_s = self._clock() - began_s
        sent_s = sum(map(len, data.values())) / CHARACTERS_A_SECOND
        self.rest_s = max(LEAST_REST_S, RESTS_PER_DRAWING * took_s, sent_s)
        return data

    async def rest(self) -> None:
        """Until it may be drawn again."""
        await asyncio.sleep(self.rest_s)
