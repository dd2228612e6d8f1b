"""Executions that a woken machine carries on with: what they say goes to the cell that asked.

A kernel saved in the middle of a cell finishes that cell when it is woken, and answers a request
that its client has long closed, or never sent to this branch.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from branchpoint_kernel.conversations import Conversation, Progress
from branchpoint_kernel.messages import EMPTY, Channel, Message, Request, made, read, under
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import OpenRequest

# What a magic raises in the guest to end its cell without a word.
ENDED_QUIETLY = "CellEnded"
NOBODY_ANSWERS = "input() cannot be answered here: {why}. It gets the end of the file.\n"


@dataclass(frozen=True, slots=True)
class Asker:
    """The request an execution is carried on for: who takes in its answers, under whose header.

    Without a header they stay under the parent the kernel gives them. `why_not` says why nobody
    can be asked for input; empty if its client can.
    """

    conversation: Conversation
    header: bytes | None
    why_not: str = ""


def why_not_asked(content: dict[str, Any]) -> str:
    """Why the client of an execute request cannot be asked for input; empty if it can."""
    return "" if content.get("allow_stdin", True) else "this client takes no questions"


def asker_of(conversation: Conversation, request: Request) -> Asker:
    """The asker that a client's request is."""
    why_not = why_not_asked(request.message.read())
    return Asker(conversation, request.message.header, why_not)


class CarriedOn:
    """One execution that a woken kernel carries on with.

    Its conversation is never over: what the cell's threads print later bears its id, too. What
    comes before it is known who asked is kept until then.
    """

    over = False

    def __init__(self, request: OpenRequest, end_input: Callable[[], None]) -> None:
        self.request = request
        self.asker: Asker | None = None
        self._end_input = end_input
        self._progress = Progress()
        self._kept: list[Message] = []
        self._failure: BranchpointError | None = None

    @property
    def finished(self) -> bool:
        """Whether the execution has come to its end."""
        return self._progress.idle and self._progress.replied

    @property
    def holds_queue(self) -> bool:
        """As the asker does, until the end."""
        return self.occupies and self.asker is not None and self.asker.conversation.holds_queue

    @property
    def executes(self) -> bool:
        """As the asker does, until the end."""
        if self.finished or self.asker is None:
            return False
        return self.asker.conversation.executes

    @property
    def occupies(self) -> bool:
        """Until the end, the asker's too."""
        if self._failure is not None:
            return False
        return not self.finished or not (self.asker is None or self.asker.conversation.over)

    @property
    def answers(self) -> bool:
        """Whether someone can be asked for input."""
        return self.asker is not None and not self.asker.why_not

    def settle(self, asker: Asker) -> None:
        """From now on everything goes there, and first what came so far."""
        self.asker = asker
        if self.request.question and not self._progress.replied:
            question = json.loads(self.request.question)
            self._pass(asker, made(Channel.STDIN, "input_request", question))
        kept, self._kept = self._kept, []
        for message in kept:
            self._pass(asker, message)
        if self._failure is not None:
            asker.conversation.fail(self._failure)

    def take(self, message: Message) -> None:
        """Pass it to the asker."""
        self._progress.note(message)
        if self.asker is None:
            self._kept.append(message)
        else:
            self._pass(self.asker, message)

    def fail(self, error: BranchpointError) -> None:
        """The machine is gone, or was given up."""
        if self.finished or self._failure is not None:
            return
        self._failure = error
        if self.asker is not None:
            self.asker.conversation.fail(error)

    def _pass(self, asker: Asker, message: Message) -> None:
        match message.type:
            case "execute_input":
                return
            case "status" if message.read().get("execution_state") != "idle":
                return
            case "error" if message.read().get("ename") == ENDED_QUIETLY:
                return
            case "execute_reply":
                message = _without_quiet_end(message)
            case "input_request" if asker.why_not:
                words = {"name": "stderr", "text": NOBODY_ANSWERS.format(why=asker.why_not)}
                message = made(Channel.IOPUB, "stream", words, parent=message.parent)
                self._end_input()
            case _:
                pass
        addressed = message if asker.header is None else under(message, asker.header)
        asker.conversation.take(addressed)


class _Around:
    """Stands in for another conversation."""

    def __init__(self, inner: Conversation) -> None:
        self.inner = inner

    @property
    def holds_queue(self) -> bool:
        """As it does."""
        return self.inner.holds_queue

    @property
    def executes(self) -> bool:
        """As it does."""
        return self.inner.executes

    @property
    def occupies(self) -> bool:
        """As it does."""
        return self.inner.occupies


class Held(_Around):
    """Stands in for a conversation while its machine may be replaced by an operation.

    It lets everything through but word of the machine's end: the operation knows better.
    """

    over = False

    def __init__(self, inner: Conversation, asker: Asker) -> None:
        super().__init__(inner)
        self.asker = asker
        self.failure: BranchpointError | None = None

    def take(self, message: Message) -> None:
        """Let it through."""
        self.inner.take(message)

    def fail(self, error: BranchpointError) -> None:
        """Remember it, for when nothing comes of the operation."""
        self.failure = error


class Astray:
    """What nobody asked for: outputs go out as they are, the rest falls."""

    over = True
    holds_queue = False
    executes = False
    occupies = False

    def __init__(self, on_stray: Callable[[Message], None]) -> None:
        self._on_stray = on_stray

    def take(self, message: Message) -> None:
        """Let outputs out."""
        if message.channel is Channel.IOPUB and message.type != "status":
            self._on_stray(message)

    def fail(self, error: BranchpointError) -> None:
        """Nobody waits for it."""


class Lingering(_Around):
    """Holds back the end of a cell that forked, so that what its forks print soon is in it."""

    def __init__(self, inner: Conversation, on_reply: Callable[[], None]) -> None:
        super().__init__(inner)
        self._on_reply = on_reply
        self._back: list[Message] = []
        self._released = False

    @property
    def over(self) -> bool:
        """Whether it has ended and the end has been let through."""
        return self.inner.over

    def take(self, message: Message) -> None:
        """Let it through, unless the end has begun."""
        if self._released:
            self.inner.take(message)
            return
        idle = message.type == "status" and message.read().get("execution_state") == "idle"
        if message.type == "execute_reply" or idle:
            if not self._back:
                self._on_reply()
            self._back.append(message)
        else:
            self.inner.take(message)

    def release(self) -> None:
        """Let the end through."""
        self._released = True
        back, self._back = self._back, []
        for message in back:
            self.inner.take(message)

    def fail(self, error: BranchpointError) -> None:
        """The end is another than it was to be, unless it has come already."""
        self.release()
        if not self.inner.over:
            self.inner.fail(error)


def conclude(asker: Asker, count: int) -> None:
    """End an asker's cell well, where no kernel will."""
    parent = asker.header or EMPTY
    reply = _well(count)
    asker.conversation.take(made(Channel.SHELL, "execute_reply", reply, parent=parent))
    idle = {"execution_state": "idle"}
    asker.conversation.take(made(Channel.IOPUB, "status", idle, parent=parent))


def show(asker: Asker, data: dict[str, Any]) -> None:
    """Display something of ours in an asker's cell."""
    content = {"data": data, "metadata": {}, "transient": {}}
    message = made(Channel.IOPUB, "display_data", content, parent=asker.header or EMPTY)
    asker.conversation.take(message)


def _without_quiet_end(message: Message) -> Message:
    content = message.read()
    if content.get("ename") != ENDED_QUIETLY:
        return message
    well = _well(content.get("execution_count", 0))
    metadata = {**read(message.metadata), "status": "ok"}
    return replace(
        message, content=json.dumps(well).encode(), metadata=json.dumps(metadata).encode()
    )


def _well(count: int) -> dict[str, Any]:
    return {"status": "ok", "execution_count": count, "user_expressions": {}, "payload": []}
