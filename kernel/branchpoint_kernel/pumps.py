"""The kernels of a session's live branches, each with a task that takes in what it says."""

import logging
from asyncio import Task, TaskGroup
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from branchpoint_kernel.conversations import Conversation
from branchpoint_kernel.messages import Channel, ForeignMessageError, Message, message_from_parts
from branchpoint_vmruntime.errors import BranchpointError, MachineEndedError
from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointId
from branchpoint_vmruntime.session import Branch, KernelChannel, Session

log = logging.getLogger(__name__)

UNSEEN_MESSAGES = 1000
UNSEEN_MESSAGE_BYTES = 64 * 1024


class Listener(Protocol):
    """Who hears of what no conversation takes."""

    def on_stray(self, pump: "Pump", message: Message) -> None:
        """A message that belongs to no request under way."""
        ...

    def on_question(self, pump: "Pump") -> None:
        """A kernel asks for input."""
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
    ) -> None:
        self.branch = branch
        self.channel = channel
        self.conversations: dict[str, Conversation] = {}
        self.ended: BranchpointError | None = None
        self.execution_count = 0
        self.unseen: deque[Message] = deque(maxlen=UNSEEN_MESSAGES)
        self._listener = listener
        self._on_end = on_end

    @property
    def holds_queue(self) -> bool:
        """Whether a magic in the shell queue must wait for this kernel."""
        return any(conversation.holds_queue for conversation in self.conversations.values())

    @property
    def executes(self) -> bool:
        """Whether an interrupt is meant for this kernel."""
        return any(conversation.executes for conversation in self.conversations.values())

    async def ask(self, message: Message, conversation: Conversation) -> None:
        """Send a request; its answers go to the conversation, and so does word of its failing."""
        if self.ended is not None:
            conversation.fail(self.ended)
            return
        self.conversations[message.id] = conversation
        try:
            await self.channel.send(message.parts)
        except BranchpointError as error:
            if self.conversations.pop(message.id, None) is not None:
                conversation.fail(error)

    def keep_unseen(self, message: Message) -> None:
        """Keep what a branch says while nobody looks: the last messages, and none that is large."""
        if len(message.content) <= UNSEEN_MESSAGE_BYTES and not message.buffers:
            self.unseen.append(message)

    async def tell(self, message: Message) -> None:
        """Send what gets no answer, such as the user's input."""
        if self.ended is None:
            await self.channel.send(message.parts)

    async def run(self) -> None:
        """Take in what the kernel says until it is gone."""
        while True:
            try:
                parts = await self.channel.receive()
            except BranchpointError as error:
                self._on_end(self, error)
                self.end(error)
                return
            try:
                self._take(message_from_parts(Channel(parts[0].decode()), parts[1:]))
            except (ForeignMessageError, ValueError, KeyError, TypeError, AttributeError) as error:
                # The guest is the user's to break: what it garbles must not end the relay.
                log.warning("branch %s said what is no message: %s", self.branch.name, error)

    def end(self, error: BranchpointError) -> None:
        """No more will come: say so to everyone who waits."""
        self.ended = error
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
        self._listener.on_change()

    def _take(self, message: Message) -> None:
        if message.type == "execute_reply":
            self.execution_count = message.read().get("execution_count", self.execution_count)
        conversation = self.conversations.get(message.parent_id)
        if conversation is None:
            self._listener.on_stray(self, message)
            return
        if message.channel is Channel.STDIN:
            self._listener.on_question(self)
        conversation.take(message)
        if conversation.over:
            del self.conversations[message.parent_id]
            self._listener.on_change()


class Pumps:
    """One pump for each live branch; follows the session from operation to operation."""

    def __init__(self, session: Session, tasks: TaskGroup, listener: Listener) -> None:
        self._session = session
        self._tasks = tasks
        self._listener = listener
        self._running: dict[str, tuple[Pump, Task[None]]] = {}
        self._counts: dict[CheckpointId, int] = {}
        self._deaths: dict[BranchName, BranchpointError] = {}

    def __iter__(self) -> Iterator[Pump]:
        return iter([pump for pump, _ in self._running.values()])

    @property
    def current(self) -> Pump:
        """That of the branch plain cells run in; BranchpointError if it has no machine."""
        branch = self._session.current
        try:
            return self.of(branch)
        except BranchpointError as error:
            raise self._deaths.get(branch.name, error) from error

    def of(self, branch: Branch) -> Pump:
        """That of a live branch."""
        incarnation = branch.kernel.incarnation
        if incarnation not in self._running:
            self.adopt()
        if incarnation not in self._running:
            ended = MachineEndedError(f"branch {branch.name!r} has no live machine")
            raise self._deaths.get(branch.name, ended)
        return self._running[incarnation][0]

    def is_current(self, pump: Pump) -> bool:
        """Whether plain cells run there."""
        try:
            return self._session.current.kernel.incarnation == pump.channel.incarnation
        except BranchpointError:
            return False

    def adopt(self) -> None:
        """Take on the kernels that have come, let go of those that are gone."""
        live = {
            branch.kernel.incarnation: branch
            for branch in self._session.branches()
            if branch.state is BranchState.LIVE
        }
        for incarnation in self._running.keys() - live.keys():
            self._let_go(incarnation)
        for incarnation in live.keys() - self._running.keys():
            self._take_on(live[incarnation])

    def remember_count(self, checkpoint: CheckpointId, count: int) -> None:
        """What In[] was at a checkpoint, for the branches that wake from it."""
        self._counts.setdefault(checkpoint, count)

    def _take_on(self, branch: Branch) -> None:
        self._deaths.pop(branch.name, None)
        pump = Pump(branch, branch.kernel, self._listener, self._note_death)
        pump.execution_count = self._counts.get(branch.record.head, 0)
        task = self._tasks.create_task(pump.run(), name=f"pump of {branch.name}")
        self._running[branch.kernel.incarnation] = (pump, task)

    def _note_death(self, pump: Pump, error: BranchpointError) -> None:
        labels = {point.id: point.label for point in self._session.checkpoints()}
        last = labels.get(pump.branch.record.head, "")
        error.hint = (
            f"type %rollback to go back to {last or 'its last checkpoint'}, or restart the kernel "
            "for a fresh machine"
        )
        self._deaths[pump.branch.name] = error

    def _let_go(self, incarnation: str) -> None:
        pump, task = self._running.pop(incarnation)
        task.cancel()
        if pump.ended is None:
            pump.end(
                MachineEndedError(
                    f"branch {pump.branch.name!r} went on from another moment; "
                    "what was under way in it was left behind"
                )
            )
