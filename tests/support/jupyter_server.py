"""A Jupyter server as a process of its own: started, asked over REST and websocket, ended."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from tests.support.live_kernel import children, command_line, wait_until
from tests.support.ports import free_port
from websocket import WebSocket, WebSocketTimeoutException, create_connection

Message = dict[str, Any]
PATIENCE_S = 120.0


@dataclass(frozen=True)
class JupyterServer:
    """A running server, and where its files and kernels are."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    folder: Path
    log_file: Path
    runtime: Path

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Path:
        """Where pages find what their user has set."""
        return self.log_file.parent / "settings"

    @property
    def log(self) -> str:
        """What it has logged."""
        return self.log_file.read_text()

    def ask(self, method: str, route: str, body: Message | None = None) -> requests.Response:
        """A request to its REST interface."""
        return requests.request(
            method,
            f"{self.url}/api/{route}",
            headers={"Authorization": f"token {self.token}"},
            json=body,
            timeout=PATIENCE_S,
        )

    def start_kernel(self, *, path: str = "") -> str:
        """A new kernel in a folder of the server's; its id."""
        answer = self.ask("POST", "kernels", {"name": "branchpoint", "path": path})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def state(self, kernel: str) -> str:
        """What the server thinks a kernel does: starting, idle, busy, dead, ..."""
        return self.ask("GET", f"kernels/{kernel}").json()["execution_state"]

    def pid(self, kernel: str) -> int:
        """The process of a kernel."""
        (found,) = [
            pid for pid in children(self.process.pid) if kernel.encode() in command_line(pid)
        ]
        return found

    def ports(self, kernel: str) -> dict[str, int]:
        """The ports in a kernel's connection file."""
        facts = json.loads((self.runtime / f"kernel-{kernel}.json").read_text())
        return {name: port for name, port in facts.items() if name.endswith("_port")}

    @contextmanager
    def connect(self, kernel: str, session: str = "") -> Generator["KernelSocket"]:
        """A websocket to a kernel's channels, as a page has."""
        named = session or uuid.uuid4().hex
        url = f"ws://127.0.0.1:{self.port}/api/kernels/{kernel}/channels?session_id={named}"
        with closing(
            create_connection(
                url, header=[f"Authorization: token {self.token}"], timeout=PATIENCE_S
            )
        ) as opened:
            yield KernelSocket(opened, named)


class KernelSocket:
    """The kernel's channels over one websocket."""

    def __init__(self, opened: WebSocket, session: str) -> None:
        self._socket = opened
        self._session = Session(session=session)
        self.seen: list[Message] = []

    def send(self, message_type: str, content: Message, channel: str = "shell") -> str:
        """A request; its message id."""
        message: Message = self._session.msg(message_type, content)  # pyright: ignore[reportUnknownMemberType]
        # The session's own ids begin anew with each socket of a page, and would be given twice.
        message_id = message["msg_id"] = message["header"]["msg_id"] = uuid.uuid4().hex
        message["channel"] = channel
        self._socket.send(json.dumps(message, default=json_default))
        return message_id

    def execute(self, code: str) -> str:
        """Send a cell; its message id."""
        return self.send(
            "execute_request",
            {"code": code, "silent": False, "store_history": True, "allow_stdin": False},
        )

    def run(self, code: str) -> str:
        """Run a cell to its end; what it printed."""
        return self.printed(self.execute(code))

    def printed(self, request: str) -> str:
        """Wait for the end of a cell; what it printed."""
        reply = self.wait(request, is_reply)
        assert reply["content"]["status"] == "ok", reply["content"]
        self.wait(request, is_idle)
        said = [m["content"] for m in self.of(request) if m["msg_type"] == "stream"]
        # On the other one a slow host's first cell is told that the machine is still coming up.
        return "".join(it["text"] for it in said if it["name"] == "stdout")

    def states(self, request: str) -> list[str]:
        """The states under a request, up to the idle it ends with."""
        self.wait(request, is_idle)
        return [
            message["content"]["execution_state"]
            for message in self.of(request)
            if message["msg_type"] == "status"
        ]

    def of(self, request: str) -> list[Message]:
        """What has arrived under a request."""
        return [m for m in self.seen if m["parent_header"].get("msg_id") == request]

    def wait(self, request: str, condition: Callable[[Message], bool]) -> Message:
        """The first message under a request that is as wished."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for message in self.of(request):
                if condition(message):
                    return message
            assert time.monotonic() < deadline, f"nothing of that kind came in {PATIENCE_S:g} s"
            try:
                self.seen.append(json.loads(self._socket.recv()))
            except WebSocketTimeoutException:
                continue


def is_reply(message: Message) -> bool:
    """Whether it is the reply to a cell."""
    return message["msg_type"] == "execute_reply"


def is_idle(message: Message) -> bool:
    """Whether it says that the kernel is done."""
    return message["content"].get("execution_state") == "idle"


@contextmanager
def jupyter_server(
    module: str,
    folder: Path,
    *arguments: str,
    python: str = sys.executable,
    again: JupyterServer | None = None,
    **environment: str,
) -> Generator[JupyterServer]:
    """Start `python -m MODULE` on a folder; ended, with its kernels, on leaving.

    `again` is one of the same folder that has ended: this one has its address and its token.
    """
    private = folder / ".jupyter"
    private.mkdir(exist_ok=again is not None)
    token, port = (again.token, again.port) if again else (uuid.uuid4().hex, free_port())
    argv = [python, "-m", module, "--no-browser", "--allow-root"]
    argv += [f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0"]
    argv += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}", *arguments]
    places = {
        "JUPYTER_CONFIG_DIR": private / "config",
        "JUPYTER_DATA_DIR": private / "data",
        "JUPYTER_RUNTIME_DIR": private / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": private / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": private / "workspaces",
    }
    log_file = private / "log"
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=os.environ | {name: str(path) for name, path in places.items()} | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = JupyterServer(process, port, token, folder, log_file, private / "runtime")
    try:
        assert wait_until(lambda: _answers(server), timeout_s=PATIENCE_S), server.log
        yield server
    finally:
        kernels = children(process.pid)
        process.terminate()
        try:
            # Its kernels save their machines first.
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert wait_until(lambda: not any(map(command_line, kernels))), "a kernel outlived it"


def _answers(server: JupyterServer) -> bool:
    assert server.process.poll() is None, server.log
    try:
        return server.ask("GET", "status").ok
    except requests.ConnectionError:
        return False
