"""`branchpoint rm` and `branchpoint create`: how sessions come to be and are got rid of."""

import asyncio
import builtins
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import pytest
from tests.unit.cli.staffed import ID, KEY, staffed
from tests.unit.lineage.facts import a_branch, a_checkpoint, a_session
from tests.unit.runtime.leftovers import CLOSED, OPEN, a_home, with_sessions

from branchpoint_cli import create
from branchpoint_cli.__main__ import main
from branchpoint_cli.origin import Origin, note_origin, origin_of
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchName, BranchState, SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

Captured = pytest.CaptureFixture[str]


def words(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with two closed sessions."""
    home = a_home(tmp_path)
    monkeypatch.setenv("BRANCHPOINT_HOME", str(home.root))
    with_sessions(home)
    return home


def there(home: Home) -> list[SessionRecord]:
    """The sessions on record."""
    with Journal.read(home.database) as journal:
        return journal.sessions()


def test_a_session_goes_with_its_files(home: Home, capsys: Captured) -> None:
    assert main(["rm", CLOSED, "--json"]) == 0
    (gone,) = json.loads(capsys.readouterr().out)
    assert (gone["session"]["id"], gone["checkpoints"]) == (CLOSED, 2)
    assert gone["freed_bytes"] > 0
    assert [one.id for one in there(home)] == [OPEN]
    assert not [*home.root.glob(f"*/{CLOSED}")]


def test_a_name_that_is_not_known_removes_nothing(home: Home, capsys: Captured) -> None:
    assert main(["rm", CLOSED, "nobody"]) == 3
    assert len(there(home)) == 2
    assert "there is no session 'nobody'" in words(capsys.readouterr().err)


@pytest.mark.parametrize(("answer", "left"), [("y", 1), ("YES", 1), ("n", 2), ("", 2)])
def test_at_a_terminal_it_asks_first(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured, answer: str, left: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", answering(answer))
    assert main(["rm", CLOSED]) == left - 1
    assert len(there(home)) == left
    out = capsys.readouterr().out
    assert f"{CLOSED} zu-größe.ipynb: 2 checkpoints, " in out
    assert "Remove this session for good? [y/N]" in out


def test_the_end_of_input_at_its_question_removes_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def end() -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", end)
    assert main(["rm", CLOSED]) == 1
    assert len(there(home)) == 2
    assert capsys.readouterr().out.endswith("[y/N] \nnothing was removed\n")


def answering(answer: str) -> Callable[[], str]:
    return lambda: answer


def test_it_does_not_ask_who_said_yes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.delattr(builtins, "input")
    assert main(["rm", CLOSED, OPEN, "--yes"]) == 0
    assert there(home) == []


def test_what_a_notebooks_kernel_has_open_is_refused(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home, by_kernel=True):
        assert main(["close"]) == 1
        refused = words(capsys.readouterr().err)
    assert "notebook" in refused
    assert [one.id for one in there(own_home)] == [ID]


def has_lent(home: Home) -> SessionRecord:
    """The closed session's branch is lent; whom to: that one is closed too, and has saved more."""
    borrower = a_session("borrower", "/notes/zu-ridge.ipynb")
    with Journal.open(home.database) as journal:
        ridge = journal.branches(SessionId(CLOSED))[0]
        lent = replace(ridge, state=BranchState.LENT, lent_to=borrower.id)
        journal.lend(lent, replace(borrower, start=lent.head))
        there = a_checkpoint("c9", lent.head, session=borrower.id, label="there")
        journal.add_checkpoint(there, advance=None)
        journal.put_branch(a_branch("ridge", "c9", session=borrower.id, state=BranchState.PAUSED))
        now = replace(borrower, start=lent.head, current=BranchName("ridge"))
        journal.put_session(now)
    return borrower


def test_what_a_notebook_had_borrowed_is_given_back_and_said_to_stay(
    home: Home, capsys: Captured
) -> None:
    borrower = has_lent(home)
    assert main(["rm", borrower.id]) == 0
    told = words(capsys.readouterr().out)
    assert "is given back to zu-größe.ipynb" in told
    assert "a checkpoint stays for now, because zu-größe.ipynb stands on it" in told
    assert {one.id for one in there(home)} == {CLOSED, OPEN}


@pytest.mark.parametrize("order", [(CLOSED, "borrower"), ("borrower", CLOSED)])
def test_lender_and_borrower_go_together_in_any_order(
    home: Home, capsys: Captured, order: tuple[str, str]
) -> None:
    borrower = has_lent(home)
    assert main(["rm", *order]) == 0
    assert [one.id for one in there(home)] == [OPEN]
    assert not [*home.root.glob(f"*/{borrower.id}"), *home.root.glob(f"*/{CLOSED}")]
    assert capsys.readouterr().err == ""


def test_a_lender_whose_branch_is_open_elsewhere_says_who_has_it(
    home: Home, capsys: Captured
) -> None:
    borrower = has_lent(home)
    (home.layers / borrower.id).mkdir()
    with locked(home.layers / borrower.id, wait=False):
        assert main(["rm", CLOSED]) == 1
    told = words(capsys.readouterr().err)
    assert "is open as '/notes/zu-ridge.ipynb', session borrower" in told
    assert "`branchpoint rm borrower`" in told
    assert len(there(home)) == 3


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What owners are asked to open; each opens a session of the key it is told."""
    asked: list[dict[str, object]] = []

    async def start_owner(_: Home, **told: object) -> OpenSession:
        del told["progress"]
        asked.append(told)
        return OpenSession(id="f00f00f00f00", key=str(told["key"]), pid=1)

    monkeypatch.setattr(create, "start_owner", start_owner)
    return asked


def test_a_session_is_created_from_its_manifest_and_named(
    own_home: Home, tmp_path: Path, opens: list[dict[str, object]], capsys: Captured
) -> None:
    manifest = tmp_path / "ein Ordner" / "maschine.yaml"
    manifest.parent.mkdir()
    manifest.write_text("machine: 1vcpu-1gb\n")
    assert main(["create", "-f", str(manifest), "--name", "größer"]) == 0
    assert capsys.readouterr().out == "f00f00f00f00\n"
    folder = manifest.parent
    assert opens == [{"manifest": manifest, "key": "größer", "folder": folder, "fresh": True}]
    made = a_session("f00f00f00f00", "größer")
    assert origin_of(own_home, made) == Origin(manifest=manifest, folder=folder)


def test_without_a_name_it_is_called_after_the_folder(
    own_home: Home,
    tmp_path: Path,
    opens: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "versuch"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session(key="versuch-1"))
    assert main(["create", "--json"]) == 0
    assert opens == [{"manifest": None, "key": "versuch-2", "folder": folder, "fresh": True}]


def test_the_manifest_of_the_folder_is_taken(
    own_home: Home,
    tmp_path: Path,
    opens: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert own_home.root.exists()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "branchpoint.yaml").write_text("")
    assert main(["create"]) == 0
    assert opens[0]["manifest"] == tmp_path / "branchpoint.yaml"


def test_a_wrong_manifest_is_refused_with_its_line_before_anything_begins(
    own_home: Home, tmp_path: Path, opens: list[dict[str, object]], capsys: Captured
) -> None:
    assert own_home.root.exists()
    manifest = tmp_path / "branchpoint.yaml"
    manifest.write_text("machine: 1vcpu-1gb\negres: [api.example.org]\n")
    assert main(["create", "-f", str(manifest)]) == 1
    assert f"{manifest}, line 2: 'egres' is not a field here" in capsys.readouterr().err
    assert main(["create", "-f", str(tmp_path / "none.yaml")]) == 1
    assert main(["create", "-f", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "none.yaml cannot be read: No such file or directory" in told
    assert f"{str(tmp_path)!r} is a folder" in told
    assert opens == []


def test_a_name_in_use_is_refused(
    home: Home, opens: list[dict[str, object]], capsys: Captured
) -> None:
    assert len(there(home)) == 2
    assert main(["create", "--name", "open.ipynb"]) == 1
    told = words(capsys.readouterr().err)
    assert "there is already a session 'open.ipynb'" in told
    assert "`branchpoint rm open.ipynb` removes it" in told
    assert opens == []


def test_a_session_whose_manifest_cannot_be_noted_is_not_created(
    own_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC), "created.json")

    monkeypatch.setattr(create, "note_origin", full)
    with ExitStack() as stack:

        async def has_ended(*_: object, **__: object) -> bool:
            # Its owner is a thread of this process here, and is waited for as one.
            await asyncio.to_thread(stack.close)
            return True

        monkeypatch.setattr("branchpoint_vmruntime.session_control.has_ended", has_ended)

        async def start_owner(_: Home, **__: object) -> OpenSession:
            await asyncio.to_thread(stack.enter_context, staffed(own_home))
            return OpenSession(id=ID, key=KEY, pid=os.getpid())

        monkeypatch.setattr(create, "start_owner", start_owner)
        assert main(["create", "--name", KEY]) == 1
    assert there(own_home) == []
    assert "'created.json' cannot be used: No space left on device" in capsys.readouterr().err


def test_what_lies_beside_a_notebook_is_its_origin(own_home: Home, tmp_path: Path) -> None:
    of_notebook = a_session(key=str(tmp_path / "a.ipynb"))
    assert origin_of(own_home, of_notebook) == Origin(manifest=None, folder=tmp_path)
    manifest = tmp_path / "branchpoint.yaml"
    manifest.write_text("")
    assert origin_of(own_home, of_notebook) == Origin(manifest=manifest, folder=tmp_path)


def test_a_notebook_that_says_its_machine_is_its_own_origin(own_home: Home, tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    notebook.write_text('{"metadata": {"branchpoint": {"machine": "1vcpu-2gb"}}}')
    (tmp_path / "branchpoint.yaml").write_text("")
    of_notebook = a_session(key=str(notebook))
    assert origin_of(own_home, of_notebook) == Origin(manifest=notebook, folder=tmp_path)


def test_an_origin_that_cannot_be_read_is_made_up_for(own_home: Home, tmp_path: Path) -> None:
    made = a_session(key=str(tmp_path / "a.ipynb"))
    note_origin(own_home, made.id, Origin(manifest=None, folder=Path("/elsewhere")))
    assert origin_of(own_home, made).folder == Path("/elsewhere")
    (own_home.session(made.id) / "created.json").write_text("{")
    assert origin_of(own_home, made).folder == tmp_path
