"""`branchpoint costs`, of a session that nobody has open and of one that somebody has."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.owners import opened
from tests.unit.lineage.facts import DAY, a_base, a_branch, a_checkpoint, a_session
from tests.unit.outside.forwarded import machine, says

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import (
    Decision,
    Draft,
    EntryKind,
    Outcome,
    OutcomeState,
    Usage,
)
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import BranchName, CheckpointId, Operation
from branchpoint_vmruntime.lineage.journal import Journal

ONE = a_session("7f3c09d2ab41", "agents")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with one session on record, whose fork asked a model once."""
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    home = Home.default()
    home.ensure()
    saved = Operation(
        session=ONE.id,
        op="checkpoint",
        branch=BranchName("main"),
        checkpoint=CheckpointId("aa00"),
        at=DAY,
        total_ms=90.0,
        phases_ms={"freeze": 11.0},
    )
    with Journal.open(home.database) as journal:
        journal.add_session(ONE)
        journal.add_checkpoint(a_base(), advance=None)
        journal.add_checkpoint(a_checkpoint("aa00", label="loaded", session=ONE.id), advance=None)
        journal.put_branch(a_branch(session=ONE.id))
        journal.put_branch(a_branch("ridge", parent="main", session=ONE.id))
        journal.add_operation(saved)
        journal.add_operation(replace(saved, op="fork", branch=BranchName("ridge")))
    usage = Usage(model="m", tokens_in=120, tokens_out=30, micros=12_300)
    draft = Draft(
        session=ONE.id,
        branch="ridge",
        incarnation="i-1",
        checkpoint="base0000",
        kind=EntryKind.REQUEST,
        decision=Decision.ALLOWED,
        method="POST",
        url="http://models.example.org/v1/chat/completions",
    )
    with Ledger.open(home.ledger) as ledger:
        ledger.note(draft, Outcome(at=DAY, state=OutcomeState.DONE, status=200, usage=usage))
    return home


def test_what_was_spent_is_told_by_branch_and_nothing_that_is_not_known(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["costs", "agents"]) == 0
    name, _head, of_main, of_ridge, together = capsys.readouterr().out.splitlines()
    assert name == f"{ONE.id} agents"
    # Nobody has it open: there is no machine that lives, and none has memory.
    assert of_main.split()[:4] == ["main", "lost", "40", "MB"]
    assert of_ridge.split()[:4] == ["ridge", "lost", "0", "kB"]
    assert "0.0123" in of_ridge
    assert "together" in together


def test_while_nobody_answers_for_it_what_is_on_record_is_told(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(home, ONE, main=machine(says(b""))):
        assert main(["costs"]) == 0
    assert "live" in capsys.readouterr().out


def test_two_files_are_written_and_written_again(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["costs", "--csv", "costs.csv"]) == 0
    assert "2 operations" in capsys.readouterr().out
    with Path("costs.csv").open(newline="") as file:
        done = [(row["operation"], row["label"], row["paused_ms"]) for row in csv.DictReader(file)]
    assert done == [("checkpoint", "loaded", "46.0"), ("fork", "loaded", "")]
    with Path("costs-branches.csv").open(newline="") as file:
        branches = {row["branch"]: row for row in csv.DictReader(file)}
    assert (branches["main"]["forks"], branches["main"]["lived_s"]) == ("1", "")
    saved = a_checkpoint("aa00").cost
    added = saved.memory_bytes + saved.device_bytes + saved.disk_bytes
    assert (branches["main"]["disk_bytes"], branches["ridge"]["disk_bytes"]) == (str(added), "0")
    assert (branches["ridge"]["tokens_in"], branches["ridge"]["money"]) == ("120", "0.0123")


def test_what_is_there_is_kept_unless_it_is_to_go(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.csv").write_text("a,b\n")
    assert main(["costs", "--csv", "mine.csv"]) == 1
    assert "--force" in capsys.readouterr().err
    assert Path("mine.csv").read_text() == "a,b\n"
    assert main(["costs", "--csv", "mine.csv", "--force"]) == 0
    assert Path("mine.csv").read_text().startswith("at,operation,branch,")


def test_as_json_each_operation_is_there(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["costs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["op"] for each in told["operations"]] == ["checkpoint", "fork"]
    assert {each["branch"]: each["tokens_in"] for each in told["costs"]} == {
        "main": 0,
        "ridge": 120,
    }
    assert told["files"] == []


def test_what_only_an_owner_knows_is_not_told_as_if_there_were_none(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["costs", "--json"]) == 0
    assert not {"limits", "currency"} & json.loads(capsys.readouterr().out).keys()
    assert main(["costs"]) == 0
    assert "limits" not in capsys.readouterr().out
