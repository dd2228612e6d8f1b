"""`branchpoint ledger`, of sessions that nobody has open and of one that somebody has."""

import json
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.owners import opened
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session
from tests.unit.outside.forwarded import machine, says

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState, Usage
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import Moment, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

ONE = a_session("7f3c09d2ab41", "/home/me/notebook.ipynb")
OTHER = a_session("aa0012345678", "/home/me/other.ipynb")
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def a_request(path: str, branch: str = "main", **changed: Any) -> Draft:
    draft = Draft(
        session=ONE.id,
        branch=branch,
        incarnation="i-1",
        checkpoint="base0000",
        kind=EntryKind.REQUEST,
        decision=Decision.ALLOWED,
        method="POST",
        url=f"http://api.example.org{path}",
    )
    return replace(draft, **changed)


def ended(state: OutcomeState = OutcomeState.DONE, **changed: Any) -> Outcome:
    outcome = Outcome(at=NOON, state=state, status=201, sent_bytes=2_000)
    return replace(outcome, **changed)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with one session on record."""
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path))
    home = Home.default()
    home.ensure()
    with Journal.open(home.database) as journal:
        journal.add_session(ONE)
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch(session=ONE.id))
        journal.put_branch(a_branch("ridge", session=ONE.id))
    return home


@pytest.fixture
def ledger(home: Home) -> Generator[Ledger]:
    with Ledger.open(home.ledger) as ledger:
        yield ledger


def add_session(home: Home, session: SessionRecord) -> None:
    with Journal.open(home.database) as journal:
        journal.add_session(session)


def test_it_shows_what_left_and_how_that_ended(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = Usage(model="m", tokens_in=120, tokens_out=30, micros=4_500)
    ledger.note(a_request("/orders"), ended(usage=usage))
    assert main(["ledger"]) == 0
    row = capsys.readouterr().out.strip().splitlines()[-1]
    for word in (
        "main",
        "POST http://api.example.org/orders",
        "201",
        "2.0 kB",
        "120 + 30",
        "0.0045",
    ):
        assert word in row


def test_it_shows_why_something_was_refused(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.note(a_request("/orders", decision=Decision.REFUSED, reason="nothing is allowed"))
    main(["ledger"])
    assert "refused: nothing is allowed" in capsys.readouterr().out


def test_what_has_no_outcome_is_unknown_once_nobody_has_the_session_open(
    home: Home, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.begin(a_request("/orders"))
    main(["ledger"])
    assert "outcome unknown" in capsys.readouterr().out
    with opened(home, ONE, main=machine(says(b""))):
        main(["ledger"])
    assert "under way" in capsys.readouterr().out


def test_when_machines_woke_is_told_in_json_alone(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.note(a_request("", kind=EntryKind.WAKE, key="base0000", reason="start"))
    main(["ledger"])
    assert "nothing has left a machine" in capsys.readouterr().out
    main(["ledger", "--json"])
    assert [entry["kind"] for entry in json.loads(capsys.readouterr().out)] == ["wake"]


def test_what_a_machine_wrote_into_a_url_does_not_steer_the_terminal(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.note(a_request("/\x1b]0;gone\x07[red]a[/red]"), ended())
    main(["ledger"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[red]a[/red]" in out


def test_it_begins_at_a_checkpoint(
    home: Home, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.note(a_request("/before"), ended())
    moment = Moment(incarnation="i-1", position=ledger.position())
    with Journal.open(home.database) as journal:
        saved = a_checkpoint("c1c1c1c1", label="loaded", session=ONE.id)
        journal.add_checkpoint(replace(saved, moment=moment), advance=None)
    ledger.note(a_request("/after"), ended())
    assert main(["ledger", "--since", "loaded", "--json"]) == 0
    urls = [entry["url"] for entry in json.loads(capsys.readouterr().out)]
    assert urls == ["http://api.example.org/after"]
    assert main(["ledger", "--since", "nowhere"]) == 3
    assert "'nowhere'" in capsys.readouterr().err


def test_it_keeps_to_a_branch(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.note(a_request("/a"), ended())
    ledger.note(a_request("/b", branch="ridge"), ended())
    ledger.note(a_request("/c", branch="of old"), ended())
    main(["ledger", "--branch", "ridge", "--json"])
    assert [e["branch"] for e in json.loads(capsys.readouterr().out)] == ["ridge"]
    assert main(["ledger", "--branch", "of old"]) == 0
    assert main(["ledger", "--branch", "forest"]) == 3
    assert "there is: main, ridge, of old" in " ".join(capsys.readouterr().err.split())


def test_a_session_that_nobody_has_open_is_read_by_its_name(
    home: Home, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    add_session(home, OTHER)
    ledger.note(a_request("/orders"), ended())
    assert main(["ledger"]) == 1
    assert f"2 are on record, the newest first: {OTHER.id}" in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["ledger", "--session", ONE.key]) == 0
    assert "/orders" in capsys.readouterr().out


def test_the_only_session_that_is_open_is_meant(
    home: Home, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    add_session(home, OTHER)
    ledger.note(a_request("/orders"), ended())
    with opened(home, ONE, main=machine(says(b""))):
        assert main(["ledger"]) == 0
    assert "/orders" in capsys.readouterr().out


def test_without_a_ledger_nothing_has_left(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert not home.ledger.exists()
    assert main(["ledger"]) == 0
    assert "nothing has left a machine" in capsys.readouterr().out
