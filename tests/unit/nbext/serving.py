"""A real Jupyter server with our extension, over a home of its own, and owners that are made up."""

import asyncio
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.live_kernel import wait_until
from tests.support.ports import free_port
from tests.unit.lineage.facts import SESSION
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from branchpoint_vmruntime.changes import Changes
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home

PATIENCE_S = 120.0
Fields = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes
    all_headers: list[tuple[str, str]]

    @property
    def json(self) -> Fields:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A Jupyter server on the loopback."""

    port: int
    token: str
    home: Home
    root: Path
    process: subprocess.Popen[bytes]
    log: Path

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request with these headers and no others."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with closing(connection):
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            kind = response.getheader("Content-Type", "")
            return Answer(response.status, kind, response.read(), response.getheaders())

    @property
    def credentials(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    def get(self, path: str) -> Answer:
        """As whoever is logged in."""
        return self.ask("GET", path, headers=self.credentials)

    def post(self, path: str, /, **fields: Any) -> Answer:
        """As whoever is logged in."""
        return self.ask("POST", path, json.dumps(fields).encode(), self.credentials)

    async def get_beside(self, path: str) -> Answer:
        """As `get`, for tests that answer as an owner in the same loop."""
        return await asyncio.to_thread(self.get, path)

    async def post_beside(self, path: str, /, **fields: Any) -> Answer:
        """As `post`, for tests that answer as an owner in the same loop."""
        return await asyncio.to_thread(self.post, path, **fields)

    async def live(self, session: str = SESSION, **headers: str) -> WebSocketClientConnection:
        """A websocket that is pushed a session."""
        url = f"ws://127.0.0.1:{self.port}/branchpoint/live?session={session}"
        return await websocket_connect(HTTPRequest(url, headers=headers or self.credentials))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def jupyter_server(folder: Path, *, home: Path | None = None, **more: Any) -> Generator[Server]:
    """A server that has read no configuration but ours, over an empty home."""
    root = home or folder / "home"
    for made in (root, folder / "notes"):
        made.mkdir(exist_ok=True)
    port = free_port()
    token = secrets.token_hex(16)
    environment = os.environ | {
        "BRANCHPOINT_HOME": str(root),
        "JUPYTER_NO_CONFIG": "1",
        # Without configuration Jupyter makes an empty folder for one, and leaves it.
        "TMPDIR": str(folder),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_TOKEN": token,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "always",
    }
    environment.pop("BRANCHPOINT_SESSION", None)
    options = {
        "ServerApp.jpserver_extensions": "branchpoint_nbext=True",
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder / "notes",
        "ServerApp.allow_root": True,
        "ServerApp.open_browser": False,
        "FileContentsManager.delete_to_trash": False,
        **more,
    }
    command = [sys.executable, "-m", "jupyter_server"]
    command += [f"--{name}={value}" for name, value in options.items()]
    log = folder / "log"
    with (
        log.open("w") as writing,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=writing) as process,
    ):
        try:
            assert wait_until(lambda: _listens(port), timeout_s=PATIENCE_S), log.read_text()
            # What it says of its start is not for a test that reads what it logs.
            assert wait_until(lambda: "is running at" in log.read_text(), timeout_s=PATIENCE_S)
            yield Server(port, token, Home(root, root / "run"), folder / "notes", process, log)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@dataclass
class Owner:
    """What has a session open, made up: it answers what it is told to, and notes what it hears."""

    changes: Changes = field(default_factory=Changes)
    view: Fields = field(default_factory=lambda: {"session": SESSION, "current": "main"})
    figures: Fields = field(default_factory=dict[str, Any])
    heard: list[Fields] = field(default_factory=list[Fields])
    cells: list[Fields] = field(default_factory=list[Fields])
    figures_asked: int = 0
    cells_asked: list[str] = field(default_factory=list[str])
    refuses: BranchpointError | None = None
    knows_views: bool = True
    tells_version: bool = True
    # What it does is done once this is set; then that is.
    let: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, **fields: Any) -> None:
        """Be shown otherwise from now on, and tell of it."""
        self.view |= fields
        self.changes.note()

    async def answer_view(self, _request: Mapping[str, Any]) -> Fields:
        if not self.knows_views:
            raise UsageError("this session cannot be asked for 'view'")
        if not self.tells_version:
            return self.view
        return {**self.view, "version": self.changes.version}

    async def answer_watch(self, request: Mapping[str, Any]) -> Fields:
        version = await self.changes.wait(request["seen"], timeout_s=request["for_s"])
        return {"version": version}

    async def answer_figures(self, _request: Mapping[str, Any]) -> Fields:
        self.figures_asked += 1
        return {"figures": self.figures}

    async def answer_cells(self, request: Mapping[str, Any]) -> Fields:
        self.cells_asked.append(request["of"])
        return {"cells": self.cells}

    async def answer_session(self, _request: Mapping[str, Any]) -> Fields:
        await self.let.wait()
        return {"id": SESSION, "key": "k", "pid": os.getpid(), "kind": "script"}

    async def answer(self, request: Mapping[str, Any]) -> Fields:
        self.heard.append({name: it for name, it in request.items() if name != "v"})
        self.asked.set()
        await self.let.wait()
        self.done.set()
        if self.refuses is not None:
            raise self.refuses
        return {"name": "done"}


@asynccontextmanager
async def owner_of(home: Home, session: str = SESSION) -> AsyncGenerator[Owner]:
    """Have a session open, which is on record, as whoever asks at its socket sees it."""
    home.ensure()
    owner = Owner()
    owner.let.set()
    (home.layers / session).mkdir(exist_ok=True)
    ops = ("switch", "fork", "rollback", "preview", "lend", "renamed")
    handlers = {
        "view": owner.answer_view,
        "watch": owner.answer_watch,
        "figures": owner.answer_figures,
        "session": owner.answer_session,
        "cells": owner.answer_cells,
        **dict.fromkeys(ops, owner.answer),
    }
    with locked(home.layers / session, wait=False):
        async with ControlServer(home.control(session), handlers):
            yield owner


async def pushed(socket: WebSocketClientConnection) -> Fields:
    """The next view that a websocket brings, whatever figures it brings before."""
    while True:
        message = await next_message(socket)
        if "view" in message:
            return message["view"]


async def next_message(socket: WebSocketClientConnection) -> Fields:
    """The next thing that a websocket brings."""
    async with asyncio.timeout(PATIENCE_S):
        message = await socket.read_message()
    assert isinstance(message, str), f"it was closed: {socket.close_code} {socket.close_reason}"
    return json.loads(message)


async def until(socket: WebSocketClientConnection, **fields: Any) -> Fields:
    """The first view that a websocket brings that is so."""
    while True:
        view = await pushed(socket)
        if fields.items() <= view.items():
            return view


async def closed(socket: WebSocketClientConnection) -> tuple[int | None, str | None]:
    """Wait until a websocket is closed; why it was."""
    async with asyncio.timeout(PATIENCE_S):
        while await socket.read_message() is not None:
            pass
    return socket.close_code, socket.close_reason
