"""A notebook that is renamed by the server keeps its session, and its kernel finds it again."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.front_end import in_a_loop
from tests.support.live_kernel import wait_until
from tests.unit.lineage.facts import a_checkpoint, a_session
from tests.unit.nbext.serving import PATIENCE_S, Server, owner_of
from tornado.web import HTTPError

from branchpoint_nbext import renames
from branchpoint_nbext.renames import Renames
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId, SessionId
from branchpoint_vmruntime.lineage.journal import Journal

OURS = ["python", "-P", "-m", "branchpoint_kernel", "-f", "{connection_file}"]
NOTEBOOK: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def key(server: Server, path: str) -> str:
    return str(server.root / path)


def has_session(server: Server, journal: Journal, session: str, path: str) -> None:
    """A notebook there, which has a session that has saved something."""
    (server.root / path).parent.mkdir(exist_ok=True)
    (server.root / path).write_text(json.dumps(NOTEBOOK))
    journal.add_session(a_session(session, key(server, path)))
    made = a_checkpoint(f"c-{session}", "base0000", session=session)
    journal.add_checkpoint(made, advance=None)


def rename(server: Server, old: str, new: str) -> None:
    """As a page renames something."""
    body = json.dumps({"path": new}).encode()
    answer = server.ask("PATCH", f"/api/contents/{quote(old)}", body, server.credentials)
    assert answer.status == 200, answer.body


def comes_to_have(journal: Journal, session: str, wanted: str) -> bool:
    """Whether it is found by that key soon: the server answers before it is heard of."""

    def has() -> bool:
        found = journal.session(SessionId(session))
        return found is not None and found.key == wanted

    return wait_until(has, timeout_s=PATIENCE_S)


def test_a_notebook_that_is_renamed_keeps_its_session(server: Server, journal: Journal) -> None:
    has_session(server, journal, "s-1", "Untitled größer.ipynb")
    rename(server, "Untitled größer.ipynb", "model.ipynb")
    assert comes_to_have(journal, "s-1", key(server, "model.ipynb"))
    assert journal.session_by_key(key(server, "Untitled größer.ipynb")) is None
    found = server.get("/branchpoint/session-of?path=model.ipynb").json
    assert found == {"session": "s-1"}


def test_one_that_is_moved_into_a_folder_does(server: Server, journal: Journal) -> None:
    has_session(server, journal, "s-1", "model.ipynb")
    (server.root / "ideas").mkdir()
    rename(server, "model.ipynb", "ideas/model.ipynb")
    assert comes_to_have(journal, "s-1", key(server, "ideas/model.ipynb"))


def test_all_in_a_folder_that_is_renamed_do(server: Server, journal: Journal) -> None:
    has_session(server, journal, "s-1", "ideas/model.ipynb")
    has_session(server, journal, "s-2", "ideas/other.ipynb")
    rename(server, "ideas", "plans")
    assert comes_to_have(journal, "s-1", key(server, "plans/model.ipynb"))
    assert comes_to_have(journal, "s-2", key(server, "plans/other.ipynb"))


def test_what_cannot_keep_it_is_named_in_the_servers_log(server: Server, journal: Journal) -> None:
    has_session(server, journal, "s-1", "model.ipynb")
    has_session(server, journal, "s-2", "earlier.ipynb")
    (server.root / "earlier.ipynb").unlink()
    rename(server, "model.ipynb", "earlier.ipynb")
    words = f"there is already a session '{key(server, 'earlier.ipynb')}'"
    assert wait_until(lambda: words in server.log.read_text(), timeout_s=PATIENCE_S)
    assert [it.key for it in journal.sessions()[-2:]] == [
        key(server, "model.ipynb"),
        key(server, "earlier.ipynb"),
    ]
    assert "branchpoint rm" in server.log.read_text()


@in_a_loop
async def test_whoever_has_it_open_is_told(server: Server, journal: Journal) -> None:
    has_session(server, journal, "s-1", "model.ipynb")
    async with owner_of(server.home, "s-1") as owner:
        await asyncio.to_thread(rename, server, "model.ipynb", "named.ipynb")
        await asyncio.wait_for(owner.asked.wait(), PATIENCE_S)
    assert owner.heard == [{"op": "renamed"}]


@dataclass
class Fake:
    """As much of a Jupyter server with one kernel as is looked at; the kernel is of `argv`."""

    root: Path
    path: str
    argv: list[str] = field(default_factory=lambda: OURS)
    restarts_as: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    launch: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def kernel_manager(self) -> "Fake":
        return self

    @property
    def session_manager(self) -> "Fake":
        return self

    def cwd_for_path(self, path: str) -> str:
        return str(self.root / path)

    def __contains__(self, kernel: object) -> bool:
        return kernel == "k"

    def get_kernel(self, kernel: str) -> Any:
        del kernel
        spec, provisioner = SimpleNamespace(argv=self.argv), SimpleNamespace(pid=42)
        return SimpleNamespace(kernel_spec=spec, provisioner=provisioner, _launch_args=self.launch)

    async def list_sessions(self) -> list[Mapping[str, Any]]:
        return [{"id": "j", "path": self.path, "name": "x", "kernel": {"id": "k"}}]

    async def update_session(self, session: str, *, path: str, name: str) -> None:
        assert session == "j"
        self.path = path
        self.restarts_as.append((path, name))


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BRANCHPOINT_SESSION", raising=False)
    home = Home.default()
    home.ensure()
    return home


async def heard(it: Renames, old: str, new: str) -> None:
    data = {"action": "rename", "source_path": old, "path": new}
    await it.heard(logger=None, schema_id="", data=data)


@in_a_loop
async def test_a_kernel_is_told_the_new_name_when_it_is_restarted(
    own_home: Home, tmp_path: Path
) -> None:
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session("s-1", str(tmp_path / "ideas/a.ipynb")))
    server = Fake(tmp_path, "ideas/a.ipynb", launch={"cwd": str(tmp_path / "ideas")})
    await heard(Renames(server), "ideas", "plans")
    assert server.restarts_as == [("plans/a.ipynb", "a.ipynb")]
    assert server.launch["cwd"] == str(tmp_path / "plans")


@in_a_loop
async def test_a_kernel_that_ends_meanwhile_keeps_no_session_from_following(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: Any, **__: Any) -> None:
        raise HTTPError(404)

    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session("s-1", str(tmp_path / "a.ipynb")))
        server = Fake(tmp_path, "a.ipynb")
        monkeypatch.setattr(server, "update_session", gone)
        await heard(Renames(server), "a.ipynb", "b.ipynb")
        assert [it.key for it in journal.sessions()] == [str(tmp_path / "b.ipynb")]


@in_a_loop
async def test_a_kernel_that_is_not_ours_or_of_another_notebook_is_left_alone(
    own_home: Home, tmp_path: Path
) -> None:
    assert own_home.root.exists()
    for server in (Fake(tmp_path, "a.ipynb", ["ipykernel"]), Fake(tmp_path, "a.ipynb.ipynb")):
        await heard(Renames(server), "a.ipynb", "b.ipynb")
        assert server.restarts_as == []


@in_a_loop
async def test_a_kernel_whose_notebook_cannot_keep_its_session_comes_back_to_that(
    own_home: Home, tmp_path: Path
) -> None:
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session("s-1", str(tmp_path / "a.ipynb")))
        other = a_session("s-2", str(tmp_path / "b.ipynb"))
        journal.add_session(replace(other, start=CheckpointId("base0000")))
    server = Fake(tmp_path, "a.ipynb")
    it = Renames(server)
    await heard(it, "a.ipynb", "b.ipynb")
    await it.close()
    assert server.restarts_as == []


@in_a_loop
async def test_a_kernel_that_opens_its_session_after_the_renaming_keeps_it(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was, opens = str(tmp_path / "a.ipynb (2)"), asyncio.Event()

    async def open_session_of(home: Home, pid: int) -> OpenSession | None:
        assert (home, pid) == (own_home, 42)
        await opens.wait()
        return OpenSession(id="s-1", key=was, pid=pid)

    monkeypatch.setattr(renames, "open_session_of", open_session_of)
    it = Renames(Fake(tmp_path, "a.ipynb"))
    await heard(it, "a.ipynb", "b.ipynb")
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session("s-1", was))
        opens.set()
        await asyncio.wait_for(it.wait(), PATIENCE_S)
        (found,) = journal.sessions()
    assert found.key == str(tmp_path / "b.ipynb (2)")


@pytest.mark.parametrize(("then", "at_last"), [("c.ipynb", "c.ipynb"), ("a.ipynb", "a.ipynb")])
@in_a_loop
async def test_a_notebook_that_is_renamed_twice_while_its_kernel_starts_is_where_it_is_at_last(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, at_last: str
) -> None:
    was, opens = str(tmp_path / "a.ipynb"), asyncio.Event()

    async def open_session_of(home: Home, pid: int) -> OpenSession | None:
        assert home == own_home
        await opens.wait()
        return OpenSession(id="s-1", key=was, pid=pid)

    monkeypatch.setattr(renames, "open_session_of", open_session_of)
    it = Renames(Fake(tmp_path, "a.ipynb"))
    await heard(it, "a.ipynb", "b.ipynb")
    await heard(it, "b.ipynb", then)
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session("s-1", was))
        opens.set()
        await asyncio.wait_for(it.wait(), PATIENCE_S)
        (found,) = journal.sessions()
    assert found.key == str(tmp_path / at_last)
