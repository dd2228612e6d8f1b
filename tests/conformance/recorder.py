"""Plays snippets on a kernel as a front end does, and writes down every message that comes back.

On the host it plays on ours, in a guest on stock ipykernel (see stock.py): so it imports nothing
that the image lacks.
"""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient

PATIENCE_S = 120.0
CHANNELS = ("shell", "iopub", "stdin", "control")


class GaveUpError(Exception):
    """What a snippet waits for did not come."""


@dataclass(frozen=True)
class Heard:
    """One message from a kernel; `parent` says which request of the snippet it belongs to."""

    channel: str
    type: str
    parent: str
    content: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    buffers: tuple[str, ...] = ()


Play = Callable[["FrontEnd"], None]


class FrontEnd:
    """A client of one kernel; what it hears is kept until the next snippet begins."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client
        self._sockets: dict[Any, str] = {
            getattr(client, f"{name}_channel").socket: name for name in CHANNELS
        }
        self._sent: dict[str, dict[str, Any]] = {}
        self.heard: list[Heard] = []

    def begin(self) -> None:
        """Forget what was; from here on another snippet plays."""
        self._sent.clear()
        self.heard = []

    def send(
        self,
        channel: str,
        message_type: str,
        content: Mapping[str, Any],
        *,
        buffers: Sequence[bytes] = (),
        subshell: str | None = None,
    ) -> str:
        """Send a request; its name in this snippet, such as "request 1"."""
        session = self._client.session
        message = session.msg(message_type, dict(content))
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        socket = getattr(self._client, f"{channel}_channel").socket
        session.send(socket, message, buffers=list(buffers))
        name = f"request {len(self._sent) + 1}"
        self._sent[name] = message["header"]
        return name

    def execute(self, code: str, *, subshell: str | None = None, **options: Any) -> str:
        """Send a cell without waiting."""
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
            **options,
        }
        return self.send("shell", "execute_request", content, subshell=subshell)

    def run(self, code: str, **options: Any) -> str:
        """Send a cell and wait for its end."""
        request = self.execute(code, **options)
        self.finish(request)
        return request

    def ask(self, channel: str, message_type: str, **content: Any) -> dict[str, Any]:
        """Send a request and wait for its end; the reply's content."""
        request = self.send(channel, message_type, content)
        self.finish(request)
        return self.reply(request)

    def tell(self, message_type: str, buffers: Sequence[bytes] = (), **content: Any) -> None:
        """Send what gets no reply, and wait until the kernel is done with it."""
        request = self.send("shell", message_type, content, buffers=buffers)
        self.wait(lambda: self.is_idle(request))

    def finish(self, *requests: str) -> None:
        """Wait until each has been replied to and the kernel has said idle."""
        for request in requests:
            self.wait(lambda request=request: self.is_idle(request) and self.reply(request))

    def answer(self, request: str, value: str, *, times: int = 1) -> None:
        """Wait for that many questions in all under a request, then answer the last."""
        self.wait(lambda: len(self.of(request, "input_request")) == times)
        message = self._client.session.msg("input_reply", {"value": value})
        self._client.session.send(self._client.stdin_channel.socket, message)

    def interrupt(self) -> None:
        """Interrupt the kernel by message, and hear it acknowledged."""
        self.ask("control", "interrupt_request")

    def wait_text(self, request: str, text: str) -> None:
        """Wait until a request has printed something."""
        self.wait(lambda: text in "".join(m.content["text"] for m in self.of(request, "stream")))

    def wait(self, condition: Callable[[], Any]) -> None:
        """Take in messages until it is so; GaveUpError if that takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise GaveUpError("nothing more came")
            self.listen(0.1)

    def listen_for(self, seconds: float) -> None:
        """Take in whatever comes within a time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.listen(left)

    def listen(self, seconds: float) -> None:
        """Take in what there is, waiting a moment for the first."""
        poller = zmq.Poller()
        for socket in self._sockets:
            poller.register(socket, zmq.POLLIN)
        for socket, _ in poller.poll(int(1000 * seconds)):
            _, message = self._client.session.recv(socket)
            if message is not None:
                self.heard.append(self._heard(self._sockets[socket], message))

    def of(self, request: str, message_type: str) -> list[Heard]:
        """What has come of a request, of one type."""
        return [m for m in self.heard if m.parent == request and m.type == message_type]

    def is_idle(self, request: str) -> bool:
        """Whether the kernel is done with it."""
        states = [m.content["execution_state"] for m in self.of(request, "status")]
        return "idle" in states

    def reply(self, request: str) -> dict[str, Any]:
        """The content of the reply to a request; nothing, if there is none yet."""
        stem = self._sent[request]["msg_type"].removesuffix("_request")
        replies = self.of(request, f"{stem}_reply")
        return replies[0].content if replies else {}

    def _heard(self, channel: str, message: dict[str, Any]) -> Heard:
        return Heard(
            channel,
            message["msg_type"],
            self._name_of(message["parent_header"]),
            _plain(message["content"]),
            _plain(message["metadata"]),
            tuple(b64encode(buffer).decode() for buffer in message["buffers"]),
        )

    def _name_of(self, parent: dict[str, Any]) -> str:
        for name, header in self._sent.items():
            if header["msg_id"] == parent.get("msg_id"):
                same = all(parent.get(key) == header[key] for key in header if key != "date")
                return name if same else f"{name}, altered"
        return "an earlier request" if parent else ""


def _plain(value: Any) -> Any:
    # The client turns what looks like a date into one.
    return json.loads(json.dumps(value, default=str))


def play(front_end: FrontEnd, plays: Mapping[str, Play]) -> dict[str, list[Heard]]:
    """Play every snippet in order; what was heard of each."""
    found: dict[str, list[Heard]] = {}
    # What is still under way from before, such as the idle of a first nudge, is no snippet's.
    front_end.run("", silent=True)
    for name, snippet in plays.items():
        front_end.begin()
        try:
            snippet(front_end)
        except GaveUpError as error:
            front_end.heard.append(Heard("", "gave up", "", {"why": str(error)}))
        found[name] = list(front_end.heard)
    return found


def write(found: Mapping[str, Sequence[Heard]]) -> str:
    """A recording as text."""
    return json.dumps({name: [asdict(message) for message in of] for name, of in found.items()})


def read(text: str) -> dict[str, list[Heard]]:
    """A recording from its text."""
    return {
        name: [_heard(message) for message in messages]
        for name, messages in json.loads(text).items()
    }


def _heard(fields: dict[str, Any]) -> Heard:
    fields["buffers"] = tuple(fields["buffers"])
    return Heard(**fields)
