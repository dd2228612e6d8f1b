"""One kernel in one incarnation: what it is asked, and whom its answers go to."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from branchpoint_kernel.asides import Asides
from branchpoint_kernel.carrying import Asker, CarriedOn, Held, why_not_asked
from branchpoint_kernel.conversations import Conversation, Deaf
from branchpoint_kernel.messages import (
    Channel,
    ForeignMessageError,
    Message,
    made,
    message_from_parts,
)
from branchpoint_kernel.mistakes import told_of
from branchpoint_kernel.open_requests import OpenRequests, is_execution
from branchpoint_vmruntime.branch_seam import Branch, KernelChannel
from branchpoint_vmruntime.errors import BranchpointError, MachineError
from branchpoint_vmruntime.lineage import Cell, Moment

log = logging.getLogger(__name__)

UNSEEN_MESSAGES = 1000
UNSEEN_MESSAGE_BYTES = 64 * 1024
# What ipykernel takes for the end of a person's input.
END_OF_INPUT = "\x04"
# Rounds of the loop in which a pump that has anything to take in gets its turn.
SETTLING_ROUNDS = 4
STUCK = "what runs in branch {name!r} heeds no interrupt"


class Listener(Protocol):
    """Who hears of what no conversation takes."""

    def on_stray(self, pump: "Pump", message: Message) -> None:
        """A message that belongs to no request under way."""
        ...

    def on_question(self, pump: "Pump") -> None:
        """A kernel asks for input."""
        ...

    def on_answer(self, pump: "Pump", message: Message) -> None:
        """What it asked is answered here, and not by a person: send that."""
        ...

    def on_cell(self, pump: "Pump", cell: Cell) -> None:
        """A cell has been run to its end."""
        ...

    def on_awake(self, pump: "Pump") -> None:
        """A kernel has been taken on."""
        ...

    def on_change(self) -> None:
        """A request has come to its end."""
        ...


class Pump:
    """One kernel in one incarnation: requests in, answers to the conversations they belong to."""

    def __init__(
        self,
        branch: Branch,
        channel: KernelChannel,
        listener: Listener,
        on_end: Callable[["Pump", BranchpointError], None],
        wait_settled: Callable[[], Awaitable[None]],
    ) -> None:
        self.branch = branch
        self.channel = channel
        self.conversations: dict[str, Conversation] = {}
        self.open = OpenRequests()
        self.asides = Asides()
        self.carried: CarriedOn | None = None
        self.failure: BranchpointError | None = None
        self.ended: BranchpointError | None = None
        self.gone = asyncio.Event()
        self.execution_count = 0
        self.unseen: deque[Message] = deque(maxlen=UNSEEN_MESSAGES)
        self.heard = 0
        self.heard_of_cell = 0
        self._stuck: Conversation | None = None
        self._changed = asyncio.Event()
        self._listener = listener
        self._on_end = on_end
        self._wait_settled = wait_settled

    @property
    def holds_queue(self) -> bool:
        """Whether a magic in the shell queue must wait for this kernel."""
        return not self.stuck and any(each.holds_queue for each in self.conversations.values())

    @property
    def interruptible(self) -> bool:
        """Whether an interrupt of the user's is meant for this kernel."""
        return any(each.executes for each in self.conversations.values())

    @property
    def occupied(self) -> bool:
        """Whether a cell runs in its main shell."""
        return any(each.occupies for each in self.conversations.values())

    @property
    def at_a_cell(self) -> bool:
        """Whether it is at a cell, whoever may interrupt that."""
        # A fork in the background is occupied with a cell that no interrupt is meant for.
        return self.interruptible or self.occupied

    @property
    def running(self) -> Conversation | None:
        """The conversation about the cell that runs, if one does."""
        request = self.open.execution
        return None if request is None else self.conversations.get(request.id)

    @property
    def stuck(self) -> bool:
        """Whether what runs was found not to heed interrupts, and still runs."""
        return self._stuck is not None and self._stuck is self.running

    def note_stuck(self) -> None:
        """What runs does not heed interrupts: nothing needs to wait for it."""
        self._stuck = self.running
        self.note_change()

    def asker(self) -> Asker | None:
        """Whose cell runs here, if one does that anybody asked for."""
        request, conversation = self.open.execution, self.running
        if isinstance(conversation, Held):
            conversation = conversation.inner
        if request is None or conversation is None or isinstance(conversation, Deaf):
            return None
        if isinstance(conversation, CarriedOn):
            return conversation.asker
        why_not = why_not_asked({"allow_stdin": self.open.may_ask(request)})
        return Asker(conversation, self.open.header(request), why_not)

    def wrap_running(self, wrapper: Callable[[Conversation], Conversation]) -> None:
        """Put another conversation around that of whoever asked for the cell that runs."""
        running = self.running
        if isinstance(running, CarriedOn) and running.asker is not None:
            running.asker = replace(running.asker, conversation=wrapper(running.asker.conversation))
        elif running is not None:
            self.replace(running, wrapper(running))

    def replace(self, conversation: Conversation, other: Conversation) -> None:
        """Let another conversation take one's place, if it still has one."""
        for message_id, each in self.conversations.items():
            if each is conversation:
                self.conversations[message_id] = other
        self.note_change()

    def inherit(self, moment: Moment) -> None:
        """The kernel carries on with what was open then: one cell for someone, the rest unheard."""
        self.execution_count = moment.count
        for request in moment.open:
            self.open.inherit(request)
            if self.carried is None and is_execution(request):
                self.carried = CarriedOn(request, self._end_input)
                self.conversations[request.id] = self.carried
            else:
                self.conversations[request.id] = Deaf()

    def settle(self, asker: Asker) -> None:
        """Let the execution carried on be the asker's."""
        if self.carried is not None and self.carried.asker is None:
            self.carried.settle(asker)
            if self.carried.request.question and self.carried.answers:
                self._listener.on_question(self)
            self.note_change()

    async def ask(self, message: Message, conversation: Conversation) -> None:
        """Send a request; its answers go to the conversation, and so does word of its failing."""
        if self.ended is not None:
            conversation.fail(self.ended)
            return
        self.conversations[message.id] = conversation
        try:
            await self.channel.send(message.parts)
        except BranchpointError as error:
            unsent = self.conversations.pop(message.id, None)
            if unsent is not None:
                unsent.fail(error)
            self.note_change()
        except BaseException:
            self.conversations.pop(message.id, None)
            self.note_change()
            raise
        else:
            # It may have waited for a machine at rest, which was saved before it had this.
            self.asides.note_sent(message, conversation)
            self.open.note_sent(message, self.execution_count + 1)
            self._listener.on_change()

    def keep_unseen(self, message: Message) -> None:
        """Keep what a branch says while nobody looks: the last messages, and none that is large."""
        if len(message.content) <= UNSEEN_MESSAGE_BYTES and not message.buffers:
            self.unseen.append(message)

    async def tell(self, message: Message) -> None:
        """Send what gets no answer, such as the user's input."""
        if self.ended is None:
            await self.channel.send(message.parts)
            self.open.note_answered()

    async def settled(self) -> None:
        """Until everything that has arrived from the kernel has been taken in."""
        heard = -1
        while heard != self.heard:
            heard = self.heard
            for _ in range(SETTLING_ROUNDS):
                await asyncio.sleep(0)

    async def wait_free(self) -> None:
        """Until no cell runs in its main shell, or the kernel is gone.

        MachineError if what runs there heeds no interrupt: nobody knows how long that would be.
        """
        while (self.stuck or self.occupied) and self.ended is None:
            if self.stuck:
                hint = "%rollback in a cell of its own takes it back to its last checkpoint"
                raise MachineError(STUCK.format(name=self.branch.name), hint=hint)
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Take in what the kernel says until it is gone."""
        while True:
            try:
                parts = await self.channel.receive()
            except Exception as error:
                await self._come_to_end(told_of(error, f"what branch {self.branch.name} says"))
                return
            self.heard += 1
            try:
                message = message_from_parts(Channel(parts[0].decode()), parts[1:])
                self._take(self.asides.attributed(message))
            except (ForeignMessageError, ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("branch %s said what is no message: %s", self.branch.name, error)
            except Exception:
                # The guest is the user's to break: what it garbles must not end the relay.
                log.exception("branch %s said what is no message", self.branch.name)

    async def _come_to_end(self, error: BranchpointError) -> None:
        self.failure = error
        # It may have been ended by what is under way, which says so in better words.
        await self._wait_settled()
        try:
            self._on_end(self, error)
        except Exception:
            # Whoever waits hears of the end all the same.
            log.exception("the end of branch %s was not noted", self.branch.name)
        self.end(error)

    def end(self, error: BranchpointError) -> None:
        """No more will come: say so to everyone who waits."""
        self.ended = error
        self.gone.set()
        self.give_up(error, lambda _: True)

    def give_up(
        self,
        error: BranchpointError,
        which: Callable[[Conversation], bool],
        instead: Conversation | None = None,
    ) -> None:
        """Fail some conversations; what still comes of them goes `instead`, or astray."""
        for message_id, conversation in list(self.conversations.items()):
            if not which(conversation):
                continue
            if instead is None:
                del self.conversations[message_id]
            else:
                self.conversations[message_id] = instead
            conversation.fail(error)
        self.note_change()

    def note_change(self) -> None:
        """Let go of conversations that are over; whoever waits looks again."""
        for message_id, conversation in list(self.conversations.items()):
            if conversation.over:
                del self.conversations[message_id]
        self._changed.set()
        self._listener.on_change()

    def _take(self, message: Message) -> None:
        try:
            self._note(message)
        except Exception:
            # What we cannot make of it, or keep, must not keep it from whoever waits for it.
            log.exception("a %s of branch %s was not noted", message.type, self.branch.name)
        conversation = self.conversations.get(message.parent_id)
        if conversation is None:
            self._listener.on_stray(self, message)
            return
        asks = message.channel is Channel.STDIN
        if asks and (not isinstance(conversation, CarriedOn) or conversation.answers):
            self._listener.on_question(self)
        conversation.take(message)
        if message.channel in (Channel.SHELL, Channel.CONTROL) or message.type == "status":
            self.note_change()

    def _note(self, message: Message) -> None:
        running = self.open.execution
        if running is not None and message.parent_id == running.id:
            self.heard_of_cell += 1
        cell = self.open.note_heard(message)
        if message.type == "execute_reply":
            self.execution_count = message.read().get("execution_count", self.execution_count)
        if cell is not None:
            self._listener.on_cell(self, cell)

    def _end_input(self) -> None:
        """Nobody can answer what the kernel asks."""
        reply = made(Channel.STDIN, "input_reply", {"value": END_OF_INPUT, "status": "ok"})
        self._listener.on_answer(self, reply)
