"""Keeps a reply on the shell channel behind the large output that came before it.

A kernel hands over a display of 128 MB in seconds, and the reply at once. Clients may drop what
comes long after the reply: nbclient waits 4 s for it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator

from branchpoint_guestkernel.backlog import Backlog

# Less than this passes in no time, and a few bytes may never be carried: those published before
# the relay had subscribed.
SLACK_BYTES = 1 << 20
# However broken the kernel's output is, its replies arrive.
HELD_S = 60.0


class Replies:
    """Replies on their way to the host, in order."""

    def __init__(self, backlog: Backlog, clock: Callable[[], float] = time.monotonic) -> None:
        self._backlog = backlog
        self._clock = clock
        self._held: deque[tuple[int, float, list[bytes]]] = deque()

    def put(self, parts: list[bytes]) -> None:
        """Take in a reply: it is behind all that has been published by now."""
        self._held.append((self._backlog.published_bytes, self._clock() + HELD_S, parts))

    def due(self) -> Iterator[list[bytes]]:
        """Those whose output is with the relay, or that have been held long enough."""
        while self._held:
            published, deadline_s, parts = self._held[0]
            behind = published - self._backlog.carried_bytes > SLACK_BYTES
            if behind and self._clock() < deadline_s:
                return
            self._held.popleft()
            yield parts

    def next_deadline_s(self) -> float | None:
        """Until when the first of them is held at most, on the clock."""
        return self._held[0][1] if self._held else None
