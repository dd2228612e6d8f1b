"""What is done to the session from outside: in its turn, and the notebook is in step afterwards."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import datetime

from branchpoint_kernel.bundles import Bundle, plain
from branchpoint_kernel.following import Following
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.rendering import note
from branchpoint_kernel.shell_queue import ShellQueue
from branchpoint_kernel.turns import Turns
from branchpoint_vmruntime.lineage import BranchRecord
from branchpoint_vmruntime.session import Session

ASKED: ContextVar[str] = ContextVar("ASKED", default="outside this notebook")
"""Where what is done was asked for, as the next cell is told it."""


class Visits:
    """Gives turns to whoever asks at the control socket, and to pauses of their own accord."""

    def __init__(
        self,
        session: Session,
        turns: Turns,
        pumps: Pumps,
        handover: Handover,
        following: Following,
        queue: ShellQueue,
    ) -> None:
        self._session = session
        self._turns = turns
        self._pumps = pumps
        self._handover = handover
        self._following = following
        self._queue = queue
        self._untold: list[Bundle] = []

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Implements `session.Turn`."""
        async with self._turns.take(may_pause=True):
            was, before = self._session.current.record, self._following.current()
            try:
                yield
            finally:
                self._pumps.adopt()
                self._handover.to_nobody()
                self._keep_in_step(was, before)
                self._pumps.look_again()

    def say(self) -> list[Bundle]:
        """What the next cell is told: that it runs elsewhere than whoever wrote it may think."""
        untold, self._untold = self._untold, []
        return untold

    def _keep_in_step(self, was: BranchRecord, before: Pump | None) -> None:
        now = self._following.current()
        if now is None or now is before:
            return
        is_current = self._session.current.record
        if is_current.name != was.name:
            self._note(f"this notebook continues as {is_current.name}")
        elif before is not None or not self._descends(is_current, was):
            # It went back: the cells that wait were sent for a future that is given up.
            self._queue.doom()
            self._note_way_back(is_current)
        self._following.begin(before)

    def _descends(self, now: BranchRecord, was: BranchRecord) -> bool:
        """Whether a branch has gone on from where it was; it may have been saved since."""
        head = next((it for it in self._session.checkpoints() if it.id == now.head), None)
        return head is not None and any(it.id == was.head for it in self._session.path(head))

    def _note_way_back(self, branch: BranchRecord) -> None:
        labels = (it.label for it in self._session.checkpoints() if it.id == branch.head)
        self._note(f"{branch.name} is back at {next(labels, branch.head)}")

    def _note(self, happened: str) -> None:
        when = f"{datetime.now().astimezone():%H:%M}"
        # What happened before it is of no account any more.
        self._untold = [plain([note("●", happened, f"asked for {ASKED.get()} at {when}")])]
