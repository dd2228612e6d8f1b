"""`branchpoint ls` and `branchpoint sweep`: sessions at one glance, and what was left behind."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.staffed import ID, staffed
from tests.unit.runtime.leftovers import (
    CLOSED,
    a_home,
    left_by_a_killed_owner,
    machine,
    with_sessions,
)

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.home import Home

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with two closed sessions."""
    home = a_home(tmp_path)
    monkeypatch.setenv("BRANCHPOINT_HOME", str(home.root))
    with_sessions(home)
    return home


def test_before_anything_was_opened_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "nowhere"))
    assert main(["ls"]) == 0
    assert main(["ls", "--json"]) == 0
    assert capsys.readouterr().out == 'no sessions yet\n{"sessions": [], "leaks": []}\n'
    assert not (tmp_path / "nowhere").exists()


def test_closed_sessions_are_listed_with_what_they_hold(home: Home, capsys: Captured) -> None:
    assert home.database.exists()
    assert main(["ls"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == [
        *("id", "state", "age", "branches", "checkpoints", "own", "shared", "disk", "cost", "name")
    ]
    (row,) = [row for row in rows if row.startswith(CLOSED)]
    # Nobody has it open, so that its machine cannot live, whatever the books say.
    assert row.split()[1] == "closed"
    assert "1 lost" in row
    assert row.endswith("zu-größe.ipynb")


def test_an_open_session_is_told_with_who_has_it_open(own_home: Home, capsys: Captured) -> None:
    (own_home.layers / ID).mkdir()
    with staffed(own_home):
        assert main(["ls", "--json"]) == 0
    (there,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (there["id"], there["key"], there["current"]) == (ID, "notebook", "main")


def test_what_a_killed_owner_left_is_shown_and_swept(home: Home, capsys: Captured) -> None:
    left = left_by_a_killed_owner(home, CLOSED)
    with machine(home, CLOSED, orphaned=True) as pid:
        assert main(["ls"]) == 0
        out = capsys.readouterr().out
        assert f"! left behind by session {CLOSED}: a machine, process {pid}" in out
        assert f"{home.live / CLOSED}, " in out
        assert "`branchpoint sweep` removes what was left behind" in out
        assert main(["sweep"]) == 0
    assert "gone: 4, " in capsys.readouterr().out
    assert not [path for path in left if path.exists()]
    assert main(["sweep"]) == 0
    assert capsys.readouterr().out == "● nothing to sweep\n"


def _removes_nothing(_folder: Path, *, ignore_errors: bool) -> None:
    """Stands in for `shutil.rmtree` on a disk that fails."""


def test_what_is_still_there_after_a_sweep_is_told_and_ends_with_1(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    left_by_a_killed_owner(home, CLOSED)
    monkeypatch.setattr("shutil.rmtree", _removes_nothing)
    assert main(["sweep"]) == 1
    told = capsys.readouterr()
    assert "gone: 1, " in told.out
    assert f"! left behind by session {CLOSED}: {home.live / CLOSED}, " in told.out
    assert "nothing to sweep" not in told.out
    assert "could not be removed" in told.err


def test_what_was_swept_is_told_as_json(home: Home, capsys: Captured) -> None:
    left = left_by_a_killed_owner(home, CLOSED)
    assert main(["sweep", "--json"]) == 0
    swept = json.loads(capsys.readouterr().out)
    assert {one["path"] for one in swept} == {str(path) for path in left}
    assert {one["kind"] for one in swept} == {"socket", "folder"}
