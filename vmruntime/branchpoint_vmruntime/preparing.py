"""Has a machine stand by for the checkpoint that is most likely wanted next, in the background."""

import asyncio
import logging

from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)


class Preparing:
    """One preparation at a time; nobody waits for it."""

    def __init__(self, register: Register, workshop: Workshop) -> None:
        self._register = register
        self._workshop = workshop
        self._task: asyncio.Task[None] | None = None
        self.wanted: Checkpoint | None = None

    async def begin(self, checkpoint: Checkpoint | None) -> None:
        """Have a machine ready for a checkpoint, or none; what was under way is called off."""
        await self.stop()
        self.wanted = checkpoint
        if checkpoint is not None:
            ready = self._workshop.stand_by(self._register.tree(), checkpoint)
            self._task = asyncio.create_task(ready, name="stand by")

    async def again(self) -> None:
        """The same as before: what was done since may have used the machine up."""
        await self.begin(self.wanted)

    async def stop(self) -> None:
        """Call off what is under way."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            log.warning("no machine could be made to stand by: %s", error, exc_info=error)
