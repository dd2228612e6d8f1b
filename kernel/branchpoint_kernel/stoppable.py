"""What the host itself does for a cell, and an interrupt ends at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from branchpoint_vmruntime.errors import BranchpointError

T = TypeVar("T")


class Stoppable:
    """One such piece of work at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False

    async def run(self, work: Coroutine[Any, Any, T], if_stopped: BranchpointError) -> T:
        """Do it to its end, or raise `if_stopped` once it has been stopped and has cleaned up."""
        self._task, self._stopped = asyncio.ensure_future(work), False
        try:
            return await self._task
        except asyncio.CancelledError:
            # Ours came from whoever waits here, unless somebody stopped the work alone.
            current = asyncio.current_task()
            if not self._stopped or (current is not None and current.cancelling()):
                raise
            raise if_stopped from None
        finally:
            self._task = None

    def stop(self) -> bool:
        """Whether there was something to stop."""
        if self._task is None or self._task.done():
            return False
        # Once: a second time would reach into how the work cleans up.
        if not self._stopped:
            self._stopped = True
            self._task.cancel()
        return True
