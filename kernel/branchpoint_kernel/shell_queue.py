"""The order of shell requests: cells one at a time, ours when all before them is done."""

from asyncio import Event
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from branchpoint_kernel.messages import Request


@dataclass(frozen=True, slots=True)
class Queued:
    """A request in the queue: `local` if the host answers it, `doomed` if with "aborted"."""

    request: Request
    local: bool
    doomed: bool = False


class ShellQueue:
    """First in, first out.

    What the host answers waits until the guest has nothing open. A cell for the guest waits until
    no other runs there, so that a checkpoint holds one open cell at most. The rest passes at once,
    if nothing waits before it. `on_held_up` is called while the first of all has to wait.
    """

    def __init__(
        self,
        guest_is_free: Callable[[], bool],
        cell_may_run: Callable[[], bool],
        on_held_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._guest_is_free = guest_is_free
        self._cell_may_run = cell_may_run
        self._on_held_up = on_held_up
        self._queued: deque[Queued] = deque()
        self._changed = Event()
        self.working = False
        self._spares_ours = False

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing of ours runs."""
        return not self._queued and not self.working

    @property
    def holds_ours(self) -> bool:
        """Whether a cell of ours waits: for what the guest has open, or for a cell of ours there.

        What a page asks by itself is none: it is no reason to give up what runs.
        """
        return any(
            queued.local and not queued.doomed and queued.request.type == "execute_request"
            for queued in self._queued
        )

    def put(self, request: Request, *, local: bool) -> None:
        """Queue a request."""
        self._queued.append(Queued(request, local))
        self._changed.set()

    async def take(self) -> Queued:
        """The next request whose turn has come."""
        self.working = self._spares_ours = False
        while not self._queued or self._must_wait(self._queued[0]):
            if self._queued:
                self._on_held_up()
            self._changed.clear()
            await self._changed.wait()
        self.working = True
        return self._queued.popleft()

    def look_again(self) -> None:
        """The guest may have become free."""
        self._changed.set()

    def doom(self, *, ours: bool = True) -> int:
        """The cells waiting now shall be answered "aborted", as ipykernel does after an error.

        Without `ours` those that the host answers are spared, also when what is answered now fails:
        it may have been given up for them.
        """
        self._spares_ours |= self.working and not ours
        ours = ours and not self._spares_ours
        count = 0
        for at, queued in enumerate(self._queued):
            if queued.request.type != "execute_request" or queued.doomed:
                continue
            if ours or not queued.local:
                self._queued[at] = replace(queued, doomed=True)
                count += 1
        self._changed.set()
        return count

    def _must_wait(self, queued: Queued) -> bool:
        if queued.local or queued.doomed:
            return not self._guest_is_free()
        return queued.request.type == "execute_request" and not self._cell_may_run()
