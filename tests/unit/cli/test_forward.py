"""`branchpoint forward`, asking a session that another thread has open."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.unit.cli.owners import opened
from tests.unit.lineage.facts import a_session
from tests.unit.outside.forwarded import PORT, ask, machine, says

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.outside.forwarding import Forward

ONE = a_session("7f3c09d2ab41", "/home/me/notebook.ipynb")
OTHER = a_session("aa0012345678", "/home/me/other.ipynb")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path))
    home = Home.default()
    home.ensure()
    return home


def test_it_forwards_a_port_of_the_only_session_that_is_open(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(home, ONE, main=machine(says(b"in"))):
        assert main(["forward", str(PORT), "--json"]) == 0
        made = Forward(**json.loads(capsys.readouterr().out))
        assert asyncio.run(ask(made)) == b"in"


def test_it_says_where_the_port_is(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(home, ONE, main=machine(says(b"in"))):
        assert main(["forward", str(PORT), "--branch", "main"]) == 0
    out = capsys.readouterr().out
    assert "http://127.0.0.1:" in out
    assert f"leads to port {PORT} of main" in out


def test_it_says_that_nothing_listens_inside(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(home, ONE, main=machine(says(b"in"), port=9000)):
        assert main(["forward", str(PORT)]) == 0
    assert f"nothing listens at port {PORT} in there yet" in capsys.readouterr().out


def test_it_lists_and_ends_forwards(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(home, ONE, main=machine(says(b"in"))):
        main(["forward", str(PORT)])
        assert main(["forward", "--list", "--json"]) == 0
        listed = capsys.readouterr().out
        assert main(["forward", str(PORT), "--stop"]) == 0
        main(["forward"])
    assert f'"port": {PORT}' in listed
    told = capsys.readouterr().out
    assert "is closed" in told
    assert "no port is forwarded" in told


def test_what_the_owner_refuses_is_said_with_what_to_do(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(home, ONE, main=machine(says(b"in"))):
        assert main(["forward", str(PORT), "--branch", "ridge"]) == 1
    assert "'ridge' is parked and has no machine" in capsys.readouterr().err


def test_with_several_open_it_lists_them_and_asks_which(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = machine(says(b"in"))
    with opened(home, ONE, main=channel), opened(home, OTHER, main=machine(says(b"in"))):
        assert main(["forward", str(PORT)]) == 1
        told = " ".join(capsys.readouterr().err.split())
        assert "2 sessions are open: 7f3c09d2ab41 (/home/me/notebook.ipynb), aa0012345678" in told
        assert "--session" in told
        assert main(["forward", str(PORT), "--session", "aa00"]) == 0
        assert main(["forward", str(PORT), "--session", ONE.key]) == 0


def test_with_none_open_it_says_so(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert home.run.exists()
    assert main(["forward", str(PORT)]) == 1
    assert "no session is open" in capsys.readouterr().err


def test_of_a_session_that_is_closed_it_says_so(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal.open(home.database) as journal:
        journal.add_session(ONE)
    assert main(["forward", str(PORT), "--session", "notebook"]) == 1
    assert f"nobody has session {ONE.id} ({ONE.key}) open" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["80000"], ["0"], ["web"], ["8000", "--to", "x"], ["--stop"], ["--to", "8000"]]
)
def test_what_makes_no_sense_ends_with_two(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["forward", *arguments])
    assert ended.value.code == 2
