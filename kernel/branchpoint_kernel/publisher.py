"""What front ends are told: statuses, replies, outputs; under our stamp, to whom they concern."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from branchpoint_kernel.messages import EMPTY, Channel, Message, Request, Stamp, now
from branchpoint_vmruntime.errors import BranchpointError


class Outlet(Protocol):
    """Where frames leave: the bound sockets, or a list in a test."""

    def send(self, channel: Channel, identities: tuple[bytes, ...], frames: list[bytes]) -> None:
        """Hand frames over without waiting."""
        ...


def error_content(error: BranchpointError) -> dict[str, Any]:
    """An error as a reply carries it: in words, without any traceback of ours.

    >>> error_content(BranchpointError("no such thing", hint="type %branches"))["traceback"]
    ['BranchpointError: no such thing', 'Hint: type %branches']
    """
    kind = type(error).__name__
    stem = kind.removesuffix("Error")
    # "MachineEnded" says it all; "Host" or "Usage" alone would not.
    name = stem if sum(letter.isupper() for letter in stem) > 1 else kind
    lines = [f"{name}: {error}"] + ([f"Hint: {error.hint}"] if error.hint else [])
    return {"status": "error", "ename": name, "evalue": str(error), "traceback": lines}


class Publisher:
    """Speaks to the front ends."""

    def __init__(self, outlet: Outlet, stamp: Stamp) -> None:
        self._outlet = outlet
        self._stamp = stamp
        self._started: dict[str, str] = {}
        self.on_forward: Callable[[Message], None] = lambda message: None

    def publish(
        self,
        message_type: str,
        content: Mapping[str, Any],
        parent: bytes = EMPTY,
        metadata: Mapping[str, Any] | None = None,
        buffers: Sequence[bytes] = (),
    ) -> None:
        """A message of our own on iopub."""
        frames = self._stamp.make(
            message_type, content, parent=parent, metadata=metadata, buffers=buffers
        )
        self._outlet.send(Channel.IOPUB, (self._topic(message_type),), frames)

    def status(self, state: str, parent: bytes = EMPTY) -> None:
        """The kernel's state: starting, busy or idle."""
        self.publish("status", {"execution_state": state}, parent)

    def display(
        self,
        request: Request,
        data: Mapping[str, Any],
        display_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """An output of our own under a request. `metadata` is by MIME type."""
        transient = {"display_id": display_id} if display_id else {}
        content = {"data": data, "metadata": metadata or {}, "transient": transient}
        self.publish("display_data", content, request.message.header)

    def update_display(
        self,
        request: Request,
        data: Mapping[str, Any],
        display_id: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Another content for an output shown earlier."""
        transient = {"display_id": display_id}
        content = {"data": data, "metadata": metadata or {}, "transient": transient}
        self.publish("update_display_data", content, request.message.header)

    def complain(self, request: Request, error: BranchpointError) -> None:
        """An error as the output of a request."""
        content = error_content(error)
        del content["status"]
        self.publish("error", content, request.message.header)

    def forward(self, message: Message) -> None:
        """A kernel's iopub message, as ours."""
        self.on_forward(message)
        topic = self._topic(message.type)
        self._outlet.send(Channel.IOPUB, (topic,), self._stamp.restamp(message))

    def pass_on(self, request: Request, message: Message) -> None:
        """A kernel's reply or question, as ours, to the client whose request it belongs to."""
        frames = self._stamp.restamp(message)
        self._outlet.send(message.channel, request.identities, frames)

    def ask(self, request: Request, prompt: str, *, password: bool) -> str:
        """A question of our own to the client whose request it belongs to; the question's id."""
        content = {"prompt": prompt, "password": password}
        frames = self._stamp.make("input_request", content, parent=request.message.header)
        self._outlet.send(Channel.STDIN, request.identities, frames)
        return self._stamp.id_of(frames)

    def reply(self, request: Request, content: Mapping[str, Any]) -> None:
        """Our own reply to a request, if its kind gets one."""
        if request.reply_type is None:
            return
        frames = self._stamp.make(
            request.reply_type,
            content,
            parent=request.message.header,
            metadata=self._reply_metadata(request, content),
        )
        self._outlet.send(request.message.channel, request.identities, frames)

    def _reply_metadata(self, request: Request, content: Mapping[str, Any]) -> dict[str, Any]:
        """As ipykernel's: front ends read from it when a cell was begun."""
        if request.type != "execute_request":
            return {}
        return {
            "started": self._started.get(request.id, now()),
            "dependencies_met": True,
            "engine": self._stamp.session_id,
            "status": content.get("status", "ok"),
        }

    @contextmanager
    def busy(self, request: Request) -> Generator[None]:
        """Busy before, idle last."""
        self.status("busy", request.message.header)
        self._started[request.id] = now()
        try:
            yield
        finally:
            del self._started[request.id]
            self.status("idle", request.message.header)

    def answer(self, request: Request, content: Mapping[str, Any]) -> None:
        """A whole answer: busy, reply, idle."""
        with self.busy(request):
            self.reply(request, content)

    def refuse(self, request: Request, error: BranchpointError, count: int = 0) -> None:
        """A whole answer to what is not carried out; a cell shows why. `count` is the last In[]."""
        with self.busy(request):
            content = error_content(error)
            if request.type == "execute_request":
                self.complain(request, error)
                # JupyterLab takes 0 for no number yet, and shows such a cell as running for ever.
                content["execution_count"] = max(1, count)
            self.reply(request, content)

    def welcome(self, subscription: bytes) -> None:
        """Tell a subscriber that its subscription holds (protocol 5.5)."""
        content = {"subscription": subscription.decode(errors="replace")}
        frames = self._stamp.make("iopub_welcome", content)
        self._outlet.send(Channel.IOPUB, (subscription,), frames)

    def _topic(self, message_type: str) -> bytes:
        return f"kernel.{self._stamp.session_id}.{message_type}".encode()
