"""What is done to the session from outside: in its turn, and the notebook is in step afterwards."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from branchpoint_kernel.comms import Comms
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.pumps import Pump, Pumps
from branchpoint_kernel.shell_queue import ShellQueue
from branchpoint_kernel.turns import Turns
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.session import Session


class Visits:
    """Gives turns to whoever asks at the control socket, and to pauses of their own accord."""

    def __init__(
        self,
        session: Session,
        turns: Turns,
        pumps: Pumps,
        handover: Handover,
        comms: Comms,
        queue: ShellQueue,
        facts: KernelFacts,
        tasks: asyncio.TaskGroup,
        foreground: Callable[[], bytes],
    ) -> None:
        self._session = session
        self._turns = turns
        self._pumps = pumps
        self._handover = handover
        self._comms = comms
        self._queue = queue
        self._facts = facts
        self._tasks = tasks
        self._foreground = foreground

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Implements `session.Turn`."""
        async with self._turns.take(may_pause=True):
            name, before = self._session.current.name, self._current()
            try:
                yield
            finally:
                self._pumps.adopt()
                self._handover.to_nobody()
                self._keep_in_step(name, before)
                self._pumps.look_again()

    def _current(self) -> Pump | None:
        try:
            return self._pumps.current
        except BranchpointError:
            return None

    def _keep_in_step(self, name: str, before: Pump | None) -> None:
        now = self._current()
        if now is None or now is before:
            return
        if before is not None and name == self._session.current.name:
            # It went back: the cells that wait were sent for a future that is given up.
            self._queue.doom()
        # A kernel that carries on with a cell answers only at its end, and nobody can wait for it.
        self._tasks.create_task(self._follow(now), name="comms after a visit")

    async def _follow(self, pump: Pump) -> None:
        with suppress(BranchpointError):
            await self._comms.follow(pump, self._foreground(), self._facts.language)
