"""Has ready, in the background, what is most likely wanted next.

A machine for the checkpoint one would go back to, and the memory of a branch that was paused.
"""

import asyncio
import contextlib
import logging
from collections import deque

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)


class Preparing:
    """One preparation of each kind at a time; no operation waits for it."""

    def __init__(self, register: Register, workshop: Workshop) -> None:
        self._register = register
        self._workshop = workshop
        self._task: asyncio.Task[None] | None = None
        self._paused: deque[Checkpoint] = deque()
        self._images: asyncio.Task[None] | None = None
        self.wanted: Checkpoint | None = None

    async def begin(self, checkpoint: Checkpoint | None) -> None:
        """Have a machine ready for a checkpoint, or none; what was under way is called off."""
        await self._call_off()
        self.wanted = checkpoint
        if checkpoint is not None:
            ready = self._workshop.stand_by(self._register.tree(), checkpoint)
            self._task = asyncio.create_task(ready, name="stand by")

    async def again(self) -> None:
        """The same as before: what was done since may have used the machine up."""
        await self.begin(self.wanted)

    def bring_together(self, paused: Checkpoint) -> None:
        """Have the memory of a paused branch in one file, so that it need only be mapped."""
        self._paused.append(paused)
        if self._images is None or self._images.done():
            self._images = asyncio.create_task(self._bring_together(), name="bring together")

    async def stop(self) -> None:
        """Call off what is under way."""
        await self._call_off()
        self._paused.clear()
        if self._images is not None:
            # A thread writes, which nothing calls off: where it does must be there until then.
            await asyncio.wait([self._images])
            _tell(self._images)

    async def _bring_together(self) -> None:
        while self._paused:
            paused = self._paused.popleft()
            if not (self._is_wanted(paused) and self._workshop.has_room_to_spare()):
                continue
            # Only a head start: whoever wants the branch does it then, and hears why it cannot be.
            with contextlib.suppress(BranchpointError, OSError):
                await self._workshop.saved_machine(self._register.tree(), paused)

    def _is_wanted(self, paused: Checkpoint) -> bool:
        """Whether a branch still rests there: it may have gone on since, or been dropped."""
        return any(
            branch.state is BranchState.PAUSED and branch.record.head == paused.id
            for branch in self._register.branches()
        )

    async def _call_off(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            _tell(task)


def _tell(ended: asyncio.Task[None]) -> None:
    if not ended.cancelled() and (error := ended.exception()):
        log.warning("%s in vain: %s", ended.get_name(), error, exc_info=error)
