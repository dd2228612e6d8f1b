"""What becomes of a kernel's answers to one request: shown, collected, or swallowed."""

from asyncio import Event, Future, get_running_loop
from collections.abc import Callable
from typing import Any, Protocol

from branchpoint_kernel.messages import Channel, Message, Request
from branchpoint_kernel.publisher import Publisher, error_content
from branchpoint_vmruntime.errors import BranchpointError

# Requests we know to be replied to. Of another the kernel may only say busy and idle.
REPLIED = frozenset(
    f"{stem}_request"
    for stem in (
        "execute",
        "inspect",
        "complete",
        "history",
        "is_complete",
        "comm_info",
        "kernel_info",
        "connect",
        "debug",
        "usage",
        "create_subshell",
        "delete_subshell",
        "list_subshell",
    )
)


class Conversation(Protocol):
    """One request under way in a kernel. It is over once replied to and idle."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        ...

    @property
    def holds_queue(self) -> bool:
        """Whether our magics in the shell queue must wait for it."""
        ...

    @property
    def executes(self) -> bool:
        """Whether an interrupt is meant for it."""
        ...

    @property
    def occupies(self) -> bool:
        """Whether it is a cell in the kernel's main shell, which is to run one at a time."""
        ...

    def take(self, message: Message) -> None:
        """A message whose parent is the request."""
        ...

    def fail(self, error: BranchpointError) -> None:
        """No more messages will come."""
        ...


class Progress:
    """How far the answers to a request have come."""

    def __init__(self) -> None:
        self.busy = False
        self.idle = False
        self.replied = False

    def note(self, message: Message) -> None:
        """Take account of one message."""
        match message.channel:
            case Channel.SHELL | Channel.CONTROL:
                self.replied = True
            case Channel.IOPUB if message.type == "status":
                state = message.read()["execution_state"]
                self.busy |= state == "busy"
                self.idle |= state == "idle"
            case _:
                pass


class Forwarded:
    """A client's request: everything goes to that client as the kernel says it.

    `preface` shows what is to stand before it.
    """

    def __init__(
        self,
        request: Request,
        publisher: Publisher,
        *,
        on_cell_error: Callable[[], None] = lambda: None,
        hint: Callable[[str], str | None] = lambda text: None,
        preface: Callable[[], None] = lambda: None,
        on_reply: Callable[[Message], None] = lambda message: None,
    ) -> None:
        self.request = request
        self._publisher = publisher
        self._on_cell_error = on_cell_error
        self._hint = hint
        self._preface = preface
        self._on_reply = on_reply
        self._progress = Progress()

    @property
    def over(self) -> bool:
        """Whether it is answered."""
        replied = self._progress.replied or self.request.type not in REPLIED
        return self._progress.idle and replied

    @property
    def holds_queue(self) -> bool:
        """Subshells and control run beside the shell queue."""
        return self.request.message.channel is Channel.SHELL and self.request.subshell is None

    @property
    def executes(self) -> bool:
        """Whether it is a cell."""
        return self.request.type == "execute_request"

    @property
    def occupies(self) -> bool:
        """Whether it is a cell, and not one beside the others."""
        return self.executes and self.holds_queue

    def take(self, message: Message) -> None:
        """Pass it on."""
        began = self._progress.busy
        self._progress.note(message)
        if message.channel is not Channel.IOPUB:
            self._publisher.pass_on(self.request, message)
            self._on_reply(message)
            if message.type == "execute_reply" and message.read().get("status") == "error":
                self._cell_failed()
            return
        self._publisher.forward(message)
        if self._progress.busy and not began:
            self._preface()
        if message.type == "stream" and (more := self._hint(message.read()["text"])):
            content = {"name": "stderr", "text": more}
            self._publisher.publish("stream", content, self.request.message.header)

    def fail(self, error: BranchpointError) -> None:
        """Say what happened in the kernel's place."""
        header = self.request.message.header
        if not self._progress.busy:
            self._publisher.status("busy", header)
        if not self._progress.replied:
            if self.executes:
                self._publisher.complain(self.request, error)
            self._publisher.reply(self.request, error_content(error))
            self._progress.replied = True
        if not self._progress.idle:
            self._publisher.status("idle", header)
            self._progress.idle = True

    def _cell_failed(self) -> None:
        content = self.request.message.read()
        if content.get("stop_on_error", True) and not content.get("silent", False):
            self._on_cell_error()


class Silent:
    """A request of our own that nobody sees the answers of; `reply` is what the kernel said."""

    holds_queue = False
    executes = False
    occupies = False

    def __init__(self) -> None:
        self.reply: Future[dict[str, Any]] = get_running_loop().create_future()
        self._progress = Progress()

    @property
    def over(self) -> bool:
        """Whether it is answered."""
        return self._progress.idle and self._progress.replied

    def take(self, message: Message) -> None:
        """Keep the reply."""
        self._progress.note(message)
        if message.channel is Channel.SHELL and not self.reply.done():
            self.reply.set_result(message.read())

    def fail(self, error: BranchpointError) -> None:
        """Whoever waits for the reply hears of it; others need not."""
        if not self.reply.done():
            self.reply.set_exception(error)
            # Most nudges are never waited for; without this asyncio logs each as unretrieved.
            self.reply.exception()


class Marker:
    """A request of our own whose end says that all the kernel said before it has come."""

    holds_queue = False
    executes = False
    occupies = False

    def __init__(self) -> None:
        self.passed = Event()

    @property
    def over(self) -> bool:
        """Whether the kernel has come to it."""
        return self.passed.is_set()

    def take(self, message: Message) -> None:
        """Wait for idle: it comes the way outputs do."""
        if message.type == "status" and message.read().get("execution_state") == "idle":
            self.passed.set()

    def fail(self, error: BranchpointError) -> None:
        """Nothing more will come."""
        self.passed.set()


class Deaf:
    """A request that was given up on: what still comes of it is nobody's any more."""

    over = False
    holds_queue = False
    executes = False
    occupies = False

    def take(self, message: Message) -> None:
        """Let it fall."""

    def fail(self, error: BranchpointError) -> None:
        """It has failed already."""


class Part:
    """A piece of a cell that the host takes apart: shows outputs, keeps the rest to us."""

    holds_queue = False
    executes = True
    occupies = True

    def __init__(self, request: Request, publisher: Publisher) -> None:
        self.reply: Future[dict[str, Any]] = get_running_loop().create_future()
        self._request = request
        self._publisher = publisher
        self._progress = Progress()
        self._content: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        """Whether it has run to its end."""
        return self._progress.idle and self._progress.replied

    def take(self, message: Message) -> None:
        """Show outputs, keep the reply, pass on questions."""
        self._progress.note(message)
        match message.channel:
            case Channel.SHELL:
                self._content = message.read()
            case Channel.STDIN:
                self._publisher.pass_on(self._request, message)
            case _ if message.type not in ("status", "execute_input"):
                self._publisher.forward(message)
            case _:
                pass
        if self.over and not self.reply.done():
            self.reply.set_result(self._content)

    def fail(self, error: BranchpointError) -> None:
        """Whoever runs the cell hears of it."""
        if not self.reply.done():
            self.reply.set_exception(error)
