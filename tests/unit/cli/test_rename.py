"""`branchpoint rename`: a session is found where its notebook is now."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.staffed import KEY, staffed
from tests.unit.lineage.facts import a_base, a_checkpoint, a_session

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal

Captured = pytest.CaptureFixture[str]
ONE, OTHER = "aa0000000000", "bb0000000000"


@pytest.fixture
def home(own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with the session of a notebook in the current folder, and another one."""
    monkeypatch.chdir(tmp_path)
    with Journal.open(own_home.database) as journal:
        journal.add_checkpoint(a_base(), advance=None)
        for session, key in ((ONE, str(tmp_path / "a.ipynb")), (OTHER, "other")):
            journal.add_session(a_session(session, key))
            journal.add_checkpoint(a_checkpoint(f"{session}-1", session=session), advance=None)
    return own_home


def keys(home: Home) -> list[str]:
    with Journal.read(home.database) as journal:
        return [it.key for it in journal.sessions()]


def test_a_session_is_found_where_its_notebook_is_now(
    home: Home, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["rename", "a.ipynb", "sub/../moved/b.ipynb"]) == 0
    assert keys(home) == [str(tmp_path / "moved/b.ipynb"), "other"]
    said = capsys.readouterr().out
    assert f"session {ONE} is {tmp_path / 'moved/b.ipynb'}" in said
    assert f"was {tmp_path / 'a.ipynb'}" in said


def test_or_by_a_name(home: Home, tmp_path: Path, capsys: Captured) -> None:
    assert main(["rename", ONE[:4], "mein Projekt", "--json"]) == 0
    assert keys(home) == ["mein Projekt", "other"]
    said = json.loads(capsys.readouterr().out)
    assert (said["session"]["key"], said["was"]) == ("mein Projekt", str(tmp_path / "a.ipynb"))


def test_what_another_session_has_is_refused_and_both_stay(home: Home, capsys: Captured) -> None:
    before = keys(home)
    assert main(["rename", ONE, "other"]) == 1
    assert keys(home) == before
    said = capsys.readouterr().err
    assert "there is already a session 'other'" in said
    assert "branchpoint rm other" in said


@pytest.mark.parametrize("key", ["", "-x", "a\nb", "x" * 201])
def test_what_can_be_no_name_is_refused(home: Home, key: str) -> None:
    before = keys(home)
    with pytest.raises(SystemExit) as refused:
        main(["rename", ONE, "--", key])
    assert refused.value.code == 2
    assert keys(home) == before


def test_a_session_that_is_not_there_is_named(home: Home, capsys: Captured) -> None:
    assert main(["rename", "nobody", "else"]) == 3
    assert "there is no session 'nobody'" in " ".join(capsys.readouterr().err.split())
    assert len(keys(home)) == 2


def test_who_has_it_open_is_asked_by_the_new_name(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        assert main(["rename", KEY, "anew"]) == 0
        assert main(["checkpoint", "loaded", "--session", "anew"]) == 0
    assert "loaded" in capsys.readouterr().out
