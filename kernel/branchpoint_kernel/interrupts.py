"""Carries out interrupts: the user's, and those of a budget that is used up."""

import asyncio
import logging
from collections.abc import Callable

from branchpoint_kernel.conversations import Silent
from branchpoint_kernel.messages import Stamp
from branchpoint_kernel.mistakes import beside
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.vigil import Vigil
from branchpoint_vmruntime.errors import BranchpointError, BudgetError
from branchpoint_vmruntime.session import Session

log = logging.getLogger(__name__)

INTERRUPT_TIMEOUT_S = 5.0
# ipykernel 7.4 sleeps on in an `await` after SIGINT until something wakes its selector; a request
# on the shell does. Twice, because the first may come before the signal has been handled.
NUDGE_AFTER_S = (0.05, 0.3)


class Interrupts:
    """Finds the kernels that an interrupt is meant for.

    `stop_ours` ends what the host itself does for a cell, and says whether it did anything.
    """

    def __init__(
        self,
        session: Session,
        pumps: Pumps,
        stop_ours: Callable[[], bool],
        vigil: Vigil,
        stamp: Stamp,
        tasks: asyncio.TaskGroup,
        warn: Callable[[bytes, str], None],
    ) -> None:
        self._session = session
        self._pumps = pumps
        self._stop_ours = stop_ours
        self._vigil = vigil
        self._stamp = stamp
        self._tasks = tasks
        self._warn = warn

    async def interrupt(self) -> None:
        """Interrupt whatever runs, or the current kernel if nothing does."""
        stopped = self._stop_ours()
        pumps = [pump for pump in self._pumps if pump.interruptible]
        if not pumps and not stopped:
            pumps = [pump for pump in self._pumps if self._pumps.is_current(pump)]
        await asyncio.gather(*(self._interrupt(pump) for pump in pumps))

    def stop(self, branch: str, error: BudgetError) -> None:
        """A budget of a branch is used up: what runs there ends, and is told why."""
        try:
            pump = self._pumps.of(self._session.branch(branch))
        except BranchpointError:
            return
        if not pump.at_a_cell:
            return
        asker = pump.asker()
        if asker is not None and asker.header is not None:
            self._warn(asker.header, f"branchpoint: {error}\nHint: {error.hint}\n")
        beside(self._tasks, self._interrupt(pump), f"the interrupt of branch {branch}")

    async def _interrupt(self, pump: Pump) -> None:
        asking = pump.open.asking()
        try:
            async with asyncio.timeout(INTERRUPT_TIMEOUT_S):
                await pump.branch.interrupt()
            # Nobody is to be asked that again. What the code asks for next may have come already.
            pump.open.note_ended(asking)
        except (BranchpointError, TimeoutError) as error:
            log.warning("branch %s could not be interrupted: %s", pump.branch.name, error)
        beside(self._tasks, self._nudge(pump), f"a nudge to branch {pump.branch.name}")
        looking = self._vigil.after_interrupt(pump)
        beside(self._tasks, looking, f"a look after the interrupt of branch {pump.branch.name}")

    async def _nudge(self, pump: Pump) -> None:
        for wait_s in NUDGE_AFTER_S:
            await asyncio.sleep(wait_s)
            await pump.ask(self._stamp.request("kernel_info_request", {}), Silent())
