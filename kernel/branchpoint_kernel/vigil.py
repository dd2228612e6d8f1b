"""Watches over cells that run: says in words when a guest is silent or heeds no interrupt."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from branchpoint_kernel.conversations import Conversation, Deaf
from branchpoint_kernel.messages import EMPTY, Channel, made
from branchpoint_kernel.mistakes import unharmed
from branchpoint_kernel.operations import Operations
from branchpoint_kernel.pump import STUCK, Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.shell_queue import ShellQueue
from branchpoint_vmruntime.errors import (
    BranchpointError,
    GuestSilentError,
    MachineEndedError,
    MachineError,
)

log = logging.getLogger(__name__)

# Together well under the 10 s within which whoever waits for a cell is told.
WATCH_EVERY_S = 2.0
PING_TIMEOUT_S = 6.0
INTERRUPT_HEEDED_WITHIN_S = 5.0
# A cell that is heard of may be cleaning up: it has that time anew, but not for ever.
ROUNDS = 6

SILENT = (
    "The machine has not answered for {seconds:.0f} s. It may yet go on; "
    "%rollback {label} takes this branch back to its last checkpoint.\n"
)
UNHEEDED = (
    "The interrupt has not ended the cell, and nothing was heard of it for {seconds:.0f} s: the "
    "code holds the interpreter, or goes on.\n"
)
GOES_ON = "The interrupt has not ended the cell: it goes on.\n"
WAY_OUT = "%rollback {label}, or another magic in a cell of its own, is carried out at once.\n"


@dataclass(slots=True)
class _Interrupted:
    """A cell that was interrupted and has not ended yet, and how often."""

    running: Conversation
    times: int = 1


class Vigil:
    """Looks after every kernel in which something runs."""

    def __init__(self, pumps: Pumps, queue: ShellQueue, operations: Operations) -> None:
        self._pumps = pumps
        self._queue = queue
        self._operations = operations
        self._told: dict[str, Conversation] = {}
        self._interrupted: dict[str, _Interrupted] = {}

    async def watch(self) -> None:
        """Ask for signs of life, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            pumps = [pump for pump in self._pumps if pump.interruptible or pump.holds_queue]
            await asyncio.gather(*(self._look_after(pump) for pump in pumps))

    async def after_interrupt(self, pump: Pump) -> None:
        """Say so if nothing comes of an interrupt, and let magics pass what runs."""
        running = pump.running
        if running is None:
            return
        key = pump.channel.incarnation
        before = self._interrupted.get(key)
        if before is not None and before.running is running:
            # Whoever waits already sees that it was interrupted once more.
            before.times += 1
            return
        interrupted = self._interrupted[key] = _Interrupted(running)
        try:
            words = await self._wait_heeded(pump, interrupted)
        finally:
            if self._interrupted.get(key) is interrupted:
                del self._interrupted[key]
        if not words:
            return
        if not pump.stuck:
            self._say(pump, words + WAY_OUT.format(label=self._pumps.last_checkpoint(pump)))
        pump.note_stuck()
        self._let_pass(pump)

    async def _wait_heeded(self, pump: Pump, interrupted: _Interrupted) -> str:
        """Nothing if the cell ends, or what to say of one that does not."""
        for _ in range(ROUNDS):
            times, heard = interrupted.times, pump.heard_of_cell
            await asyncio.sleep(INTERRUPT_HEEDED_WITHIN_S)
            if pump.ended is not None or pump.running is not interrupted.running:
                return ""
            if pump.heard_of_cell == heard:
                return UNHEEDED.format(seconds=INTERRUPT_HEEDED_WITHIN_S)
            if 1 < interrupted.times == times:
                break
        return GOES_ON

    async def _look_after(self, pump: Pump) -> None:
        await unharmed(self._check(pump), f"a look after branch {pump.branch.name}")

    async def _check(self, pump: Pump) -> None:
        if self._operations.under_way:
            return
        if pump.stuck:
            self._let_pass(pump)
        try:
            await pump.branch.ping(timeout_s=PING_TIMEOUT_S)
        except (GuestSilentError, MachineEndedError) as error:
            if not self._operations.under_way:
                self._report(pump, error)
        except BranchpointError as error:
            log.warning("branch %s could not be pinged: %s", pump.branch.name, error)
        else:
            self._told.pop(pump.channel.incarnation, None)

    def _report(self, pump: Pump, error: BranchpointError) -> None:
        """Give up what one of our magics waits for; otherwise say it once and let it run on."""
        if self._queue.holds_ours and self._give_up(pump, error, _holds_up):
            return
        running = pump.running
        if running is None or self._told.get(pump.channel.incarnation) is running:
            return
        self._told[pump.channel.incarnation] = running
        label = self._pumps.last_checkpoint(pump)
        self._say(pump, SILENT.format(seconds=PING_TIMEOUT_S, label=label))

    def _let_pass(self, pump: Pump) -> None:
        """Let nothing of what runs there be waited for by our magics, as it heeds no interrupt."""
        if not self._queue.holds_ours:
            return
        error = MachineError(STUCK.format(name=pump.branch.name))
        if self._give_up(pump, error, _is_for_ours):
            # What was given up runs on there.
            pump.note_stuck()
        elif self._pumps.is_current(pump):
            self._queue.doom(ours=False)

    def _give_up(
        self, pump: Pump, error: BranchpointError, which: Callable[[Conversation], bool]
    ) -> bool:
        """Give up some of what runs there, and the cells before ours; whether there was any."""
        if not any(which(conversation) for conversation in pump.conversations.values()):
            return False
        error.hint = f"type %rollback {self._pumps.last_checkpoint(pump)} to go back there"
        pump.give_up(error, which, Deaf())
        self._queue.doom(ours=False)
        return True

    @staticmethod
    def _say(pump: Pump, words: str) -> None:
        asker = pump.asker()
        if asker is not None:
            content = {"name": "stderr", "text": words}
            parent = asker.header or EMPTY
            asker.conversation.take(made(Channel.IOPUB, "stream", content, parent=parent))


def _is_for_ours(conversation: Conversation) -> bool:
    """Whether it is code that a cell of ours waits for; what is in the background is not."""
    return conversation.executes and conversation.occupies and not conversation.holds_queue


def _holds_up(conversation: Conversation) -> bool:
    return conversation.holds_queue or _is_for_ours(conversation)
