"""The routes of a real Jupyter server that has our extension."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.architecture.house import ROOT
from tests.unit.lineage.facts import SESSION, a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.lineage.journal import Journal

pytest.importorskip("jupyter_server", reason="the extension needs a Jupyter server (extra: lab)")


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes


@dataclass(frozen=True)
class Server:
    """A Jupyter server on the loopback."""

    port: int
    token: str
    home: Path

    def get(self, path: str, *, token: str | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            wanted = self.token if token is None else token
            headers = {"Authorization": f"token {wanted}"} if wanted else {}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            kind = response.getheader("Content-Type", "")
            return Answer(response.status, kind, response.read())
        finally:
            connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server that has read no configuration but ours, over an empty home."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "home").mkdir()
    port, token = free_port(), secrets.token_hex(16)
    environment = os.environ | {
        "BRANCHPOINT_HOME": str(folder / "home"),
        "JUPYTER_NO_CONFIG": "1",
        # Without configuration Jupyter makes an empty folder for one, and leaves it.
        "TMPDIR": str(folder),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_TOKEN": token,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    options = {
        "ServerApp.jpserver_extensions": "branchpoint_nbext=True",
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "ServerApp.allow_root": True,
        "ServerApp.open_browser": False,
    }
    command = [sys.executable, "-m", "jupyter_server"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = takewhile(lambda line: "is running at" not in line, process.stderr)
            before = "".join(said)
            assert process.poll() is None, before
            yield Server(port, token, folder / "home")
        finally:
            process.terminate()


@pytest.fixture
def journal(server: Server) -> Generator[Journal]:
    """The server's journal, with one session."""
    path = server.home / "lineage.db"
    with Journal.open(path) as journal:
        journal.add_session(a_session())
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        journal.add_checkpoint(a_checkpoint("loaded"), advance=a_branch().name)
        yield journal
    for file in server.home.iterdir():
        file.unlink()


PATHS = ["sessions", f"lineage?session={SESSION}", f"lineage.svg?session={SESSION}"]


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_is_not_logged_in_learns_nothing(server: Server, path: str, token: str) -> None:
    answer = server.get(f"/branchpoint/{path}", token=token)
    assert answer.status == 403
    assert b"notebook.ipynb" not in answer.body


def test_where_no_session_has_been_the_list_is_empty(server: Server) -> None:
    answer = server.get("/branchpoint/sessions")
    assert answer.status == 200
    assert json.loads(answer.body) == {"sessions": []}


@pytest.mark.usefixtures("journal")
def test_sessions_are_listed(server: Server) -> None:
    answer = server.get("/branchpoint/sessions")
    assert [session["id"] for session in json.loads(answer.body)["sessions"]] == [SESSION]


def test_a_lineage_is_what_the_journal_holds_now(server: Server, journal: Journal) -> None:
    journal.add_checkpoint(a_checkpoint("fitted", "loaded"), advance=a_branch().name)
    answer = server.get(f"/branchpoint/lineage?session={SESSION}")
    lineage = json.loads(answer.body)
    assert [each["label"] for each in lineage["checkpoints"]] == ["base", "loaded", "fitted"]
    assert [each["head"] for each in lineage["branches"]] == ["fitted"]


@pytest.mark.usefixtures("journal")
def test_the_picture_is_an_svg(server: Server) -> None:
    answer = server.get(f"/branchpoint/lineage.svg?session={SESSION}")
    assert answer.status == 200
    assert answer.kind == "image/svg+xml"
    assert b"<svg" in answer.body


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("session", ["nobody", "50% <b>\u00e4\r\nX-Injected: 1"])
def test_an_unknown_session_is_not_found_and_named(server: Server, session: str) -> None:
    answer = server.get(f"/branchpoint/lineage?session={quote(session)}")
    assert answer.status == 404
    assert "there is no session" in json.loads(answer.body)["message"]


@pytest.mark.usefixtures("journal")
def test_a_request_without_a_session_is_a_bad_request(server: Server) -> None:
    assert server.get("/branchpoint/lineage").status == 400


@pytest.mark.usefixtures("journal")
def test_nothing_can_be_written_through_the_routes(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"token {server.token}"}
    connection.request("POST", "/branchpoint/sessions", body="{}", headers=headers)
    assert connection.getresponse().status == 405
    connection.close()


def test_the_installed_configuration_turns_the_extension_on() -> None:
    config = json.loads((ROOT / "nbext" / "jupyter-config" / "branchpoint.json").read_text())
    assert config == {"ServerApp": {"jpserver_extensions": {"branchpoint_nbext": True}}}
