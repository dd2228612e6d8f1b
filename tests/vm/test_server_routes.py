"""A real Jupyter server and a kernel through it: pages see its session live, and act on it."""

import json
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.support.jupyter_server import JupyterServer, jupyter_server
from tests.support.live_kernel import wait_until
from websocket import WebSocket, create_connection

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

PATIENCE_S = 120.0
View = dict[str, Any]


class Page:
    """Shown a session by the server, as a page of JupyterLab is."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    def until(self, wished: Callable[[View], bool]) -> View:
        """The first view that is as wished."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = json.loads(self._socket.recv())
            # Figures that move come in between.
            if "view" in told and wished(told["view"]):
                return told["view"]
            assert time.monotonic() < deadline, "it never came to that"


def ask(server: JupyterServer, method: str, route: str, **fields: Any) -> requests.Response:
    return requests.request(
        method,
        f"{server.url}/branchpoint/{route}",
        headers={"Authorization": f"token {server.token}"},
        json=fields or None,
        timeout=PATIENCE_S,
    )


@contextmanager
def page(server: JupyterServer, session: str) -> Generator[Page]:
    url = f"ws://127.0.0.1:{server.port}/branchpoint/live?session={session}"
    header = [f"Authorization: token {server.token}"]
    with closing(create_connection(url, header=header, timeout=PATIENCE_S)) as socket:
        yield Page(socket)


def states(view: View) -> dict[str, str]:
    return {it["facts"]["name"]: it["facts"]["state"] for it in view["branches"]}


def labels(view: View) -> list[str]:
    return [it["facts"]["label"] for it in view["checkpoints"]]


def session_of(server: JupyterServer, kernel: str) -> str:
    """A kernel has its session some time after it was started."""
    found: list[str] = []

    def is_open() -> bool:
        answer = ask(server, "GET", f"session-of?kernel={kernel}")
        assert answer.status_code == 200, answer.text
        found[:] = [it for it in answer.json().values() if it is not None]
        return bool(found)

    assert wait_until(is_open, timeout_s=PATIENCE_S)
    return found[0]


# Read by every interpreter of that server: as long as there is that file, a disk is slow once.
SLOW = """
import os, pathlib, time
mark, fsync = pathlib.Path(os.environ["SLOW_DISK"]), os.fsync
def slow(fd):
    if mark.exists():
        mark.unlink(missing_ok=True)
        time.sleep(7)
    fsync(fd)
os.fsync = slow
"""


def test_a_kernel_that_takes_longer_than_jupyter_waits_gives_back_its_last_value(
    home: Home, tmp_path: Path
) -> None:
    assert home.database.exists()
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    mark = tmp_path / "slow"
    notebook: View = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    with jupyter_server(
        "jupyter_server", tmp_path, PYTHONPATH=str(tmp_path), SLOW_DISK=str(mark)
    ) as server:

        def open_notebook(path: str) -> dict[str, Any]:
            wanted = {"name": path, "path": path, "type": "notebook"}
            return server.ask(
                "POST", "sessions", {**wanted, "kernel": {"name": "branchpoint"}}
            ).json()

        lender = open_notebook("a.ipynb")["kernel"]["id"]
        session = session_of(server, lender)
        with server.connect(lender) as here:
            here.run("%fork 1 --names ridge")
            made = ask(server, "POST", "open-branch", session=session, branch="ridge")
            borrower = open_notebook(made.json()["path"])
            with server.connect(borrower["kernel"]["id"]) as there:
                there.run("value = 'last'")
            mark.touch()
            assert server.ask("DELETE", f"sessions/{borrower['id']}").status_code == 204
            assert not mark.exists()
            with page(server, session) as shown:
                shown.until(lambda view: states(view)["ridge"] == "paused")
            here.run("%switch ridge")
            assert here.run("print(value)") == "last\n"


def test_pages_see_a_session_live_and_act_on_it_until_its_kernel_is_killed(
    home: Home, tmp_path: Path
) -> None:
    assert home.database.exists()
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(
        json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    with jupyter_server("jupyter_server", tmp_path) as server:
        wanted = {"name": "a.ipynb", "path": "a.ipynb", "type": "notebook"}
        started = server.ask("POST", "sessions", {**wanted, "kernel": {"name": "branchpoint"}})
        kernel = started.json()["kernel"]["id"]
        session = session_of(server, kernel)
        with (
            server.connect(kernel) as shell,
            page(server, session) as one,
            page(server, session) as other,
        ):
            shell.run("x = 1\n")
            shell.run("%checkpoint loaded")
            assert one.until(lambda view: "loaded" in labels(view))["owner"] == "kernel"
            forked = ask(server, "POST", "act", session=session, op="fork", count=1, names=["b"])
            assert forked.status_code == 200, forked.text
            assert [it["name"] for it in forked.json()["done"]["branches"]] == ["b"]
            for shown in (one, other):
                assert states(shown.until(lambda view: "b" in states(view))) == {
                    "main": "live",
                    "b": "live",
                }
            shell.run("x = 2")
            fields = {"session": session, "op": "rollback", "target": "loaded"}
            assert ask(server, "POST", "act", **fields).json()["done"]["branch"]["name"] == "main"
            assert shell.run("print(x)") == "1\n"
            assert (
                other.until(lambda view: "before-rollback-1" in labels(view))["current"] == "main"
            )
            told = ask(server, "POST", "ask", session=session, op="cells", of="main").json()
            assert "%checkpoint loaded" in [it["source"] for it in told["cells"]]
            unknown = ask(server, "POST", "act", session=session, op="switch", name="nobody")
            assert unknown.status_code == 404
            os.kill(server.pid(kernel), signal.SIGKILL)
            view = one.until(lambda view: view["owner"] is None)
            assert states(view) == {"main": "lost", "b": "lost"}
            # Jupyter starts it again; pages that stayed open are shown that one.
            other.until(lambda view: view["owner"] == "kernel")
        by_path = ask(server, "GET", "session-of?path=a.ipynb").json()
        assert by_path == {"session": session}
        assert "Traceback" not in server.log
