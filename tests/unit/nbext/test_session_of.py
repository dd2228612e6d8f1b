"""Which session a kernel has open, and which one a notebook has had."""

import os
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import DAY, SESSION, a_checkpoint, a_session
from tests.unit.nbext.serving import Server, owner_of

from branchpoint_nbext.kernels import open_session_of, process_of
from branchpoint_nbext.notebooks import Notebooks, newest_of
from branchpoint_vmruntime import session_control
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.lineage.journal import Journal


def notebooks(root: Path, **contents: object) -> Notebooks:
    return Notebooks(SimpleNamespace(**contents), root, lambda path: str((root / path).parent))


@in_a_loop
async def test_a_process_has_the_session_whose_folder_it_holds_and_answers_for(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, tmp_path / "run")
    async with owner_of(home):
        found = await open_session_of(home, os.getpid())
        assert found is not None
        assert (found.id, found.pid) == (SESSION, os.getpid())
        assert await open_session_of(home, os.getppid()) is None
    assert await open_session_of(home, os.getpid()) is None


@in_a_loop
async def test_a_process_that_is_held_up_has_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_control, "_SIGN_OF_LIFE_S", 0.0)
    home = Home(tmp_path, tmp_path / "run")
    async with owner_of(home) as owner:
        with Journal.open(home.database) as journal:
            journal.add_session(a_session())
        owner.let.clear()
        found = await open_session_of(home, os.getpid())
    assert found is not None
    assert (found.id, found.pid) == (SESSION, os.getpid())


@in_a_loop
async def test_who_only_holds_a_session_to_tidy_up_has_none(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path / "run")
    async with owner_of(home):
        home.control(SESSION).rename(tmp_path / "elsewhere")
        assert await open_session_of(home, os.getpid()) is None


@pytest.mark.parametrize(
    ("manager", "pid"),
    [
        (SimpleNamespace(provisioner=SimpleNamespace(pid=42)), 42),
        (SimpleNamespace(provisioner=SimpleNamespace(pid=None)), None),
        (SimpleNamespace(provisioner=SimpleNamespace()), None),
        (SimpleNamespace(provisioner=None), None),
        (SimpleNamespace(), None),
    ],
    ids=["local", "not started", "another kind", "none yet", "at a gateway"],
)
def test_a_kernel_is_known_by_its_process_where_it_has_one_here(
    manager: object, pid: int | None
) -> None:
    assert process_of(manager) == pid


def test_the_newest_session_of_a_notebook_is_found_among_those_beside() -> None:
    keys = ["/n/a.ipynb", "/n/a.ipynb (2)", "/n/a.ipynb (3)", "/n/a.ipynb-x (2)", "/n/b.ipynb"]
    sessions = [a_session(f"s-{number}", key) for number, key in enumerate(keys)]
    at = {SessionId("s-1"): DAY.replace(year=2027), SessionId("s-3"): DAY.replace(year=2028)}
    newest = newest_of("/n/a.ipynb", sessions, at)
    assert newest is not None
    assert newest.id == "s-1"
    assert newest_of("/n/c.ipynb", sessions, at) is None


@pytest.mark.parametrize("name", ["a.ipynb", "sub/ü (2).ipynb", "x (2)/a b.ipynb"])
def test_a_key_leads_back_to_the_notebook_it_is_of(tmp_path: Path, name: str) -> None:
    known = notebooks(tmp_path)
    key = known.key_of(name)
    assert key == str(tmp_path / name)
    assert known.path_of(key) == known.path_of(f"{key} (2)") == name


@pytest.mark.parametrize(
    "key", ["script-1", "/elsewhere/a.ipynb", "{root}/.hidden/a.ipynb", "{root}/a.txt", "{root}"]
)
def test_a_key_that_is_no_notebook_of_the_server_leads_nowhere(tmp_path: Path, key: str) -> None:
    assert notebooks(tmp_path).path_of(key.replace("{root}", str(tmp_path))) is None


def test_a_session_named_for_all_kernels_is_that_of_every_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHPOINT_SESSION", "class")
    assert notebooks(tmp_path).key_of("a.ipynb") == as_key("class")


def test_a_notebook_without_a_kernel_is_known_by_its_path(server: Server, journal: Journal) -> None:
    name = "ü b.ipynb"
    (server.root / name).write_text("{}")
    journal.add_session(a_session("mine", str(server.root / name)))
    journal.add_session(a_session("beside", f"{server.root / name} (2)"))
    journal.add_checkpoint(a_checkpoint("late", session="beside"), advance=None)
    answer = server.get(f"/branchpoint/session-of?path={quote(name)}")
    assert (answer.status, answer.json) == (200, {"session": "beside"})
    listed = {it["id"]: it["path"] for it in server.get("/branchpoint/sessions").json["sessions"]}
    assert (listed["mine"], listed[SESSION]) == (name, None)


@pytest.mark.usefixtures("journal")
def test_a_notebook_that_was_never_run_has_no_session(server: Server) -> None:
    (server.root / "new.ipynb").write_text("{}")
    answer = server.get("/branchpoint/session-of?path=new.ipynb")
    # Browsers complain of a 404, and every new notebook is asked for.
    assert (answer.status, answer.json) == (200, {"session": None})


def test_where_nothing_was_ever_run_no_notebook_has_a_session(server: Server) -> None:
    (server.root / "new.ipynb").write_text("{}")
    answer = server.get("/branchpoint/session-of?path=new.ipynb")
    assert (answer.status, answer.json) == (200, {"session": None})


def test_a_kernel_that_the_server_does_not_have_is_not_found(server: Server) -> None:
    answer = server.get("/branchpoint/session-of?kernel=nobody")
    assert answer.status == 404
    assert "no kernel 'nobody'" in answer.json["message"]


@pytest.mark.parametrize("query", ["", "kernel=a&path=b"])
def test_either_a_kernel_or_a_path_has_to_be_given(server: Server, query: str) -> None:
    assert server.get(f"/branchpoint/session-of?{query}").status == 400


HOSTILE = [
    "../secret.ipynb",
    "sub/../../secret.ipynb",
    "/etc/passwd",
    "//etc/passwd",
    ".hidden/a.ipynb",
    "sub/.a.ipynb",
    "./a.ipynb",
    "",
    "out/secret.ipynb",
    "a.ipynb/..",
    "a\0.ipynb",
    "~/a.ipynb",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leads_out_of_the_servers_folder_finds_nothing(
    server: Server, journal: Journal, path: str
) -> None:
    secret = server.root.parent / "secret.ipynb"
    secret.write_text("{}")
    journal.add_session(a_session("theirs", str(secret)))
    (server.root / "sub").mkdir()
    (server.root / ".hidden").mkdir()
    for made in ("a.ipynb", ".hidden/a.ipynb", "sub/.a.ipynb"):
        (server.root / made).write_text("{}")
        journal.add_session(a_session(made, str(server.root / made)))
    answer = server.get(f"/branchpoint/session-of?path={quote(path, safe='')}")
    assert answer.status in (400, 404)
    assert set(answer.json) == {"message", "hint"}
    opened = server.post("/branchpoint/open-branch", session=SESSION, branch="main", path=path)
    assert opened.status in (400, 404)
    assert sorted(it.name for it in server.root.iterdir()) == [".hidden", "a.ipynb", "sub"]
