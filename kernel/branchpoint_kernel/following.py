"""Has comms follow when cells run in another kernel than before, whoever has seen to that."""

import asyncio
import logging
from collections.abc import Callable

from branchpoint_kernel.comms import Comms
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_vmruntime.errors import BranchpointError

log = logging.getLogger(__name__)

# A kernel that is not in the middle of something answers in milliseconds.
PATIENCE_S = 2.0


class Following:
    """Sees to it that comms are those of the kernel that cells run in now.

    `foreground` is the header of the cell that runs now, or ran last.
    """

    def __init__(
        self,
        comms: Comms,
        pumps: Pumps,
        facts: KernelFacts,
        tasks: asyncio.TaskGroup,
        foreground: Callable[[], bytes],
    ) -> None:
        self._comms = comms
        self._pumps = pumps
        self._facts = facts
        self._tasks = tasks
        self._foreground = foreground

    def current(self) -> Pump | None:
        """The kernel that cells run in; None if it has no machine."""
        try:
            return self._pumps.current
        except BranchpointError:
            return None

    def begin(self, before: Pump | None, header: bytes | None = None) -> asyncio.Task[None] | None:
        """Follow if it is another than before, under a header or that of the cell that runs.

        A kernel in the middle of a cell answers only at its end, which nobody can wait for.
        """
        now = self.current()
        if now is None or now is before:
            return None
        following = self._follow(now, self._foreground() if header is None else header)
        return self._tasks.create_task(following, name=f"comms of {now.branch.name}")

    async def keep_up(self, before: Pump | None, header: bytes) -> None:
        """The same, and wait until it is done unless that takes long."""
        following, now = self.begin(before, header), self.current()
        if following is not None and now is not None and now.running is None:
            await asyncio.wait({following}, timeout=PATIENCE_S)

    async def _follow(self, pump: Pump, header: bytes) -> None:
        try:
            await self._comms.follow(pump, header, self._facts.language)
        except BranchpointError as error:
            log.info("branch %s is gone before its comms were known: %s", pump.branch.name, error)
        except Exception:
            # The guest is the user's to break: what it garbles must not end the session.
            log.exception("the comms of branch %s could not be followed", pump.branch.name)
