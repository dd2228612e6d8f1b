"""The command `branchpoint` in the guest: what a script reads from it."""

import io
import json

import pytest
from tests.support.fake_calls import FakeCalls

from branchpoint.__main__ import main

Captured = pytest.CaptureFixture[str]


def test_a_checkpoint_shows_what_there_is_to_see_and_ends_with_its_state(
    calls: FakeCalls, capsys: Captured
) -> None:
    calls.done({"label": "a", "id": "c0ffee"}, {"text/plain": "● a"})
    assert main(["checkpoint", "a", "--note", "x y"]) == 0
    assert capsys.readouterr().out == "● a\nsaved\n"
    [request] = calls.requests
    assert (request["line"], request["by"]) == ("a --note 'x y'", "command")


def test_a_checkpoint_that_was_woken_from_says_so(calls: FakeCalls, capsys: Captured) -> None:
    calls.woken("rollback")
    assert main(["checkpoint"]) == 0
    assert capsys.readouterr().out == "restored\n"


def test_a_fork_ends_with_its_index_in_the_parent(calls: FakeCalls, capsys: Captured) -> None:
    calls.done({"index": 0, "names": ["a"]}, {"text/plain": "└─ a"})
    assert main(["fork", "1"]) == 0
    assert capsys.readouterr().out == "└─ a\n0\n"


def test_a_fork_ends_with_its_index_in_the_fork(calls: FakeCalls, capsys: Captured) -> None:
    calls.woken("fork", 3)
    assert main(["fork", "3"]) == 0
    assert capsys.readouterr().out == "3\n"


def test_help_for_a_magic_is_shown_alone(calls: FakeCalls, capsys: Captured) -> None:
    calls.done(data={"text/plain": "%checkpoint [LABEL]"})
    assert main(["checkpoint", "--help"]) == 0
    assert capsys.readouterr().out == "%checkpoint [LABEL]\n"


@pytest.mark.parametrize(("kind", "status"), [("UsageError", 2), ("CheckpointError", 1)])
def test_a_failure_is_told_on_stderr_with_its_hint_and_status(
    calls: FakeCalls, capsys: Captured, kind: str, status: int
) -> None:
    calls.refused("no such thing", "try another", kind=kind)
    assert main(["rollback", "x"]) == status
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "branchpoint: no such thing\nbranchpoint: try another\n")


def test_what_the_machine_is_woken_in_the_middle_of_fails(
    calls: FakeCalls, capsys: Captured
) -> None:
    calls.woken("reopen")
    assert main(["branches"]) == 1
    assert "woken by reopen" in capsys.readouterr().err


def test_identity_is_json(calls: FakeCalls, capsys: Captured) -> None:
    assert main(["identity"]) == 0
    who = json.loads(capsys.readouterr().out)
    expected = {"name": "main", "index": 0, "incarnation": "inc-1", "session": "s-1"}
    assert who == expected | {"reason": "start"}


def test_a_cell_for_branches_is_read_from_the_input(
    calls: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x = 1\n"))
    calls.done()
    assert main(["branch", "all"]) == 0
    assert (calls.requests[0]["name"], calls.requests[0]["body"]) == ("branch", "x = 1\n")


def test_nothing_asked_for_is_a_wrong_usage(capsys: Captured) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("usage: branchpoint NAME")


def test_help_is_no_failure(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: branchpoint NAME")
