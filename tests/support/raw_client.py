"""A front end that starts kernels by itself, as VS Code does, and speaks the protocol unaided.

It reads kernel.json, picks ports, writes the connection file, spawns argv, signs by hand.
"""

import hashlib
import hmac
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zmq
from jupyter_core.paths import jupyter_path
from tests.support.ports import free_ports

Message = dict[str, Any]
PATIENCE_S = 120.0
_DELIMITER = b"<IDS|MSG>"


def kernel_spec(name: str = "branchpoint") -> Message:
    """The content of an installed kernel.json."""
    for folder in jupyter_path("kernels"):
        file = Path(folder) / name / "kernel.json"
        if file.is_file():
            return json.loads(file.read_text())
    raise LookupError(f"no kernel.json of {name}")


@dataclass
class Ran:
    """What came of a cell."""

    reply: Message
    outputs: list[Message] = field(default_factory=list[Message])

    @property
    def status(self) -> str:
        """The reply's status."""
        return self.reply["content"]["status"]

    @property
    def text(self) -> str:
        """What it printed."""
        streams = [out for out in self.outputs if out["header"]["msg_type"] == "stream"]
        return "".join(out["content"]["text"] for out in streams)

    @property
    def errors(self) -> list[str]:
        """The names of the errors it showed."""
        failed = [out for out in self.outputs if out["header"]["msg_type"] == "error"]
        return [out["content"]["ename"] for out in failed]


class RawClient:
    """Channels to a kernel, and the process if this client still has it."""

    def __init__(
        self, facts: Message, process: subprocess.Popen[bytes], sockets: ExitStack
    ) -> None:
        self.process = process
        self._key = facts["key"].encode()
        self._session = uuid.uuid4().hex
        self._outputs: list[Message] = []
        context = sockets.enter_context(zmq.Context())

        def connect(kind: int, channel: str) -> zmq.Socket[bytes]:
            made = sockets.enter_context(context.socket(kind))
            made.linger = 0
            made.identity = self._session.encode()
            made.connect(f"tcp://{facts['ip']}:{facts[f'{channel}_port']}")
            return made

        self._channels = {name: connect(zmq.DEALER, name) for name in ("shell", "control", "stdin")}
        self._iopub = connect(zmq.SUB, "iopub")
        self._iopub.subscribe(b"")

    def send(self, message_type: str, content: Message, channel: str = "shell") -> str:
        """A request; its message id."""
        header: Message = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": message_type,
            "session": self._session,
            "username": "someone",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
        }
        parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        self._channels[channel].send_multipart([_DELIMITER, self._signature(parts), *parts])
        return header["msg_id"]

    def reply(
        self, request: str, channel: str = "shell", *, within_s: float = PATIENCE_S
    ) -> Message:
        """The reply to a request; TimeoutError if none comes."""
        while True:
            message = self._receive(self._channels[channel], within_s)
            if message["parent_header"]["msg_id"] == request:
                return message

    def start(self, code: str) -> str:
        """Send a cell; its message id."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        return self.send("execute_request", content | {"stop_on_error": True})

    def finish(self, request: str) -> Ran:
        """Wait for a cell's reply and for its idle."""
        ran = Ran(self.reply(request))
        self.wait_output(request, _is_idle)
        ran.outputs = self._of(request)
        return ran

    def run(self, code: str) -> Ran:
        """Run a cell to its end."""
        return self.finish(self.start(code))

    def wait_output(self, request: str, condition: Callable[[Message], bool]) -> None:
        """Until something on iopub under a request is as wished."""
        while not any(condition(message) for message in self._of(request)):
            self._outputs.append(self._receive(self._iopub, PATIENCE_S))

    def wait_ready(self) -> None:
        """Ask for kernel info until it is answered and iopub is heard, as VS Code does."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            asked = self.send("kernel_info_request", {})
            try:
                self.reply(asked, within_s=2)
                self._outputs.append(self._receive(self._iopub, 2))
            except TimeoutError:
                assert time.monotonic() < deadline, "the kernel does not answer"
            else:
                return

    def shut_down(self, *, restart: bool) -> None:
        """Ask the kernel to end, and wait until it has."""
        asked = self.send("shutdown_request", {"restart": restart}, "control")
        assert self.reply(asked, "control")["content"] == {"status": "ok", "restart": restart}
        self.process.wait(PATIENCE_S)

    def _of(self, request: str) -> list[Message]:
        return [m for m in self._outputs if m["parent_header"].get("msg_id") == request]

    def _receive(self, channel: "zmq.Socket[bytes]", within_s: float) -> Message:
        if not channel.poll(round(1000 * within_s)):
            raise TimeoutError(f"no message within {within_s:g} s")
        frames = channel.recv_multipart()
        at = frames.index(_DELIMITER)
        signature, parts = frames[at + 1], frames[at + 2 : at + 6]
        assert hmac.compare_digest(signature, self._signature(parts)), "a bad signature"
        names = ("header", "parent_header", "metadata", "content")
        return dict(zip(names, map(json.loads, parts), strict=True))

    def _signature(self, parts: Sequence[bytes]) -> bytes:
        made = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            made.update(part)
        return made.hexdigest().encode()


def _is_idle(message: Message) -> bool:
    return message["content"].get("execution_state") == "idle"


def write_connection_file(folder: Path) -> Path:
    """A connection file with ports that are free now."""
    names = ("shell", "iopub", "stdin", "control", "hb")
    picked = free_ports(len(names))
    ports = {f"{name}_port": port for name, port in zip(names, picked, strict=True)}
    facts = {"key": uuid.uuid4().hex, "signature_scheme": "hmac-sha256", "transport": "tcp"}
    path = folder / f"kernel-{uuid.uuid4().hex}.json"
    path.write_text(json.dumps({**facts, "ip": "127.0.0.1", **ports}))
    return path


@contextmanager
def launched(connection_file: Path, **environment: str) -> Generator[RawClient]:
    """A kernel spawned from kernel.json's argv in a process group of its own; ended on leaving."""
    argv = [
        part.replace("{connection_file}", str(connection_file)) for part in kernel_spec()["argv"]
    ]
    process = subprocess.Popen(
        argv, cwd=connection_file.parent, env=os.environ | environment, start_new_session=True
    )
    try:
        with ExitStack() as sockets:
            client = RawClient(json.loads(connection_file.read_text()), process, sockets)
            client.wait_ready()
            yield client
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)
