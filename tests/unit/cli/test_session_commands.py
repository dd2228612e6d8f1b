"""The commands that ask a session's owner, over real sockets and made-up machines."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_workshop import FULL
from tests.unit.cli.staffed import ID, Staff, staffed

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.errors import MachineStartError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.results import RunResult

Said = Callable[[], Any]
Captured = pytest.CaptureFixture[str]


def words(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def test_a_checkpoint_says_what_it_is_called_and_what_it_cost(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home):
        assert main(["checkpoint", "geladen-加载", "--note", "all of it", "--pin"]) == 0
    out = capsys.readouterr().out
    assert "● geladen-加载" in out
    assert "guest paused 46 ms" in out
    assert "pinned" in out


def test_a_checkpoint_is_told_as_json(own_home: Home, said: Said) -> None:
    with staffed(own_home):
        assert main(["checkpoint", "one", "--note", "all of it", "--pin", "--json"]) == 0
    made = said()
    assert (made["label"], made["note"], made["pinned"]) == ("one", "all of it", True)
    assert (made["kind"], made["branch"], made["paused_ms"]) == ("user", "main", 46.2)


def test_a_label_is_taken_as_an_option_too_but_not_twice(
    own_home: Home, said: Said, capsys: Captured
) -> None:
    with staffed(own_home):
        assert main(["checkpoint", "--label", "one", "--json"]) == 0
        assert said()["label"] == "one"
        with pytest.raises(SystemExit) as ended:
            main(["checkpoint", "one", "--label", "two"])
    assert ended.value.code == 2
    assert "'one' and --label both say what it is called" in words(capsys.readouterr().err)


def test_a_checkpoint_is_annotated_and_found_by_its_new_label(own_home: Home, said: Said) -> None:
    with staffed(own_home):
        main(["checkpoint", "one", "--note", "raw", "--json"])
        made = said()
        assert main(["annotate", "one", "--label", "geladen-加载", "--json"]) == 0
        assert said() == made | {"label": "geladen-加载"}
        assert main(["annotate", "geladen-加载", "--note", "", "--json"]) == 0
        assert said()["note"] == ""
        assert main(["annotate", "one", "--note", "x"]) == 3


def test_to_annotate_with_nothing_is_a_wrong_call(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home), pytest.raises(SystemExit) as ended:
        main(["annotate", "one"])
    assert ended.value.code == 2
    assert "give it a new --label, a --note, or both" in capsys.readouterr().err


def test_the_base_is_not_annotated_and_it_is_said_why(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        assert main(["annotate", "base", "--label", "mine"]) == 1
    assert "'base' is not this session's own" in words(capsys.readouterr().err)


def test_forks_get_the_names_that_are_given(own_home: Home, said: Said) -> None:
    with staffed(own_home):
        assert main(["fork", "--names", "ridge, forest", "--json"]) == 0
        report = said()
        assert [branch["name"] for branch in report["branches"]] == ["ridge", "forest"]
        assert report["reseeded"] is True
        assert main(["fork", "2", "--from", report["origin"]["id"], "--same-random", "--json"]) == 0
        report = said()
    assert [branch["name"] for branch in report["branches"]] == ["main-1", "main-2"]
    assert report["reseeded"] is False


def test_a_fork_that_does_not_come_up_is_said_and_ends_with_one(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        staff.workshop.wake_errors["forest"] = MachineStartError("QEMU went", hint="see its log")
        assert main(["fork", "2", "--names", "ridge,forest"]) == 1
    out = capsys.readouterr().out
    assert "├─ ridge    awake 100 ms" in out
    assert "└─ forest   did not come up · QEMU went; see its log" in out


def test_a_rollback_says_how_to_undo_it(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        main(["checkpoint", "one"])
        assert main(["rollback", "one"]) == 0
        assert main(["rollback", "--no-safety"]) == 0
    out = capsys.readouterr().out
    assert "● main is back at one in " in out
    assert "what was left is saved: branchpoint rollback before-rollback-1" in out
    assert "safety checkpoint not taken" in out


def test_a_checkpoint_that_is_not_there_ends_with_three_and_what_may_have_been_meant(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home):
        main(["checkpoint", "loaded"])
        assert main(["rollback", "loadde"]) == 3
        assert main(["rollback", "zzz"]) == 3
    told = words(capsys.readouterr().err)
    assert "there is no checkpoint 'loadde'; there is: loaded, base" in told
    assert "did you mean 'loaded'?" in told
    assert "branchpoint tree lists them all" in told


def test_a_branch_that_is_not_there_ends_with_three_and_what_may_have_been_meant(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home):
        assert main(["switch", "mian"]) == 3
    told = words(capsys.readouterr().err)
    assert "there is no branch 'mian'; there is: main" in told
    assert "did you mean 'main'?" in told


def test_a_session_continues_as_another_branch_and_gives_one_up(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        main(["fork", "--names", "ridge"])
        assert main(["switch", "ridge"]) == 0
        assert main(["drop", "main"]) == 0
        assert staff.session is not None
        assert staff.session.current.name == "ridge"
    out = capsys.readouterr().out
    assert "● the session continues as ridge   9.4 MB own, 432 MB shared" in out
    assert "✕ main   dropped" in out


def test_a_branch_is_paused_and_resumed(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        assert main(["pause"]) == 0
        assert main(["resume"]) == 0
        assert main(["resume"]) == 1
    captured = capsys.readouterr()
    assert "‖ main is paused at paused-main-1" in captured.out
    assert "▶ main carries on from paused-main-1   awake in " in captured.out
    assert "'main'" in captured.err


@pytest.fixture
def run_gives(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunResult], list[str]]:
    """Has what is run in a machine give that; the code that was run."""

    def give(result: RunResult) -> list[str]:
        ran: list[str] = []

        async def run(_: OwnedBranch, code: str, *, timeout_s: float) -> RunResult:
            assert timeout_s > 0
            ran.append(code)
            return result

        monkeypatch.setattr(OwnedBranch, "run", run)
        return ran

    return give


RunGives = Callable[[RunResult], list[str]]


def test_code_is_run_and_what_it_wrote_is_shown_as_it_is(
    own_home: Home, run_gives: RunGives, capsys: Captured
) -> None:
    ran = run_gives(RunResult(status="ok", text="[bold]ü[/]\n", elapsed_ms=1.0))
    with staffed(own_home):
        assert main(["run", "print('[bold]ü[/]')"]) == 0
    assert ran == ["print('[bold]ü[/]')"]
    assert capsys.readouterr().out == "[bold]ü[/]\n"


def test_code_comes_in_at_standard_input(
    own_home: Home, run_gives: RunGives, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    ran = run_gives(RunResult(status="ok", text="42", elapsed_ms=1.0))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("x = 'ü'\nx".encode())))
    with staffed(own_home):
        assert main(["run", "-", "--json"]) == 0
    assert ran == ["x = 'ü'\nx"]
    assert said()["text"] == "42"


def test_code_that_comes_in_as_no_text_is_refused(
    own_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x = '\xff'")))
    with staffed(own_home):
        assert main(["run", "-"]) == 1
    assert "not UTF-8 text (byte 5)" in capsys.readouterr().err


def test_an_error_that_code_raises_is_said_and_ends_with_one(
    own_home: Home, run_gives: RunGives, capsys: Captured
) -> None:
    failed = RunResult(
        status="error", text="", elapsed_ms=1.0, error_name="ValueError", error_value="[no]"
    )
    run_gives(failed)
    with staffed(own_home):
        assert main(["run", "f()"]) == 1
    assert "✗ ValueError: [no]" in capsys.readouterr().err


def test_checkpoints_of_a_closed_session_are_pinned_too(own_home: Home, said: Said) -> None:
    with staffed(own_home):
        for label in ("one", "two"):
            assert main(["checkpoint", label, "--json"]) == 0
            said()
    assert main(["pin", "one", "two", "--json"]) == 0
    pinned = {one["id"] for one in said() if one["pinned"]}
    with Journal.read(own_home.database) as journal:
        assert journal.pins() == pinned
    assert main(["unpin", "one", "--json"]) == 0
    assert [one["label"] for one in said()] == ["one"]
    assert main(["pin", "tow"]) == 3
    with Journal.read(own_home.database) as journal:
        assert len(journal.pins()) == len(pinned) - 1


def test_checkpoints_are_pinned_and_let_go(own_home: Home, said: Said) -> None:
    with staffed(own_home):
        main(["checkpoint", "one", "--json"])
        made = said()
        assert main(["pin", "one", "--json"]) == 0
        assert [one["pinned"] for one in said()] == [True]
        assert main(["unpin", made["id"][:6], "--json"]) == 0
        assert [one["pinned"] for one in said()] == [False]


def test_checkpoints_that_stay_are_said_with_why(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        main(["fork", "--names", "ridge"])
        for label in ("one", "two", "three"):
            main(["checkpoint", label, "--branch", "ridge"])
        main(["drop", "ridge"])
        main(["pin", "two"])
        capsys.readouterr()
        assert main(["rm", "--checkpoint", "one", "two", "three", "base"]) == 1
        out = capsys.readouterr().out
        assert "✕ three   gone" in out
        assert "one     stays: others descend from it: two" in out
        assert "two     stays: it is pinned; `branchpoint unpin two` lets it go" in out
        assert "base    stays: every session begins at it" in out
        main(["unpin", "two"])
        assert main(["rm", "--checkpoint", "one", "two"]) == 0


def test_what_the_owner_cannot_do_ends_with_one_and_its_words(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        staff.workshop.draft_error = FULL
        assert main(["checkpoint"]) == 1
    told = words(capsys.readouterr().err)
    assert told == "✗ the disk is full free some space there"


def test_a_session_that_is_doing_something_else_ends_with_four(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        assert staff.session is not None
        staff.session.executes = lambda branch: branch == "main"
        assert main(["pause"]) == 4
    assert "'main'" in capsys.readouterr().err


def test_closing_a_session_saves_it(
    own_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    # Its owner is a thread of this process here, whose end nobody can wait for.
    monkeypatch.setattr("os.pidfd_open", gone)
    with staffed(own_home):
        main(["fork", "--names", "ridge"])
        assert main(["close"]) == 0
    out = capsys.readouterr().out
    assert "‖ main    paused at paused-main-1" in out
    assert "‖ ridge   paused at paused-ridge-1" in out


def gone(_: int) -> int:
    raise ProcessLookupError


def test_a_session_that_nobody_has_open_is_said_to_be_closed(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home):
        pass
    assert main(["checkpoint", "--session", "notebook"]) == 1
    told = words(capsys.readouterr().err)
    assert f"nobody has session {ID} (notebook) open" in told
    assert f"branchpoint resume --session {ID}" in told


def test_a_session_that_is_not_there_ends_with_three_and_what_may_have_been_meant(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        assert isinstance(staff, Staff)
        assert main(["checkpoint", "--session", "notebok"]) == 3
    told = words(capsys.readouterr().err)
    assert f"there is no session 'notebok'; there is: {ID} (notebook)" in told
    assert "did you mean 'notebook'?" in told


def test_what_a_session_removed_by_itself_is_said_once(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home) as staff:
        assert staff.session is not None
        staff.session.notices.append("over the budget of the store: removed one; 41.0 MB are free")
        assert main(["checkpoint", "two", "--json"]) == 0
        assert "⚠ over the budget of the store: removed one" in capsys.readouterr().err
        assert main(["checkpoint", "three", "--json"]) == 0
        assert capsys.readouterr().err == ""


def test_a_branch_that_is_here_again_for_the_asking_is_said_to_be(
    own_home: Home, capsys: Captured
) -> None:
    with staffed(own_home) as staff:
        main(["fork", "1", "--names", "ridge", "--json"])
        assert staff.session is not None
        staff.session.came_back.append(("ridge", "/notes/demo-ridge.ipynb"))
        capsys.readouterr()
        assert main(["switch", "ridge", "--json"]) == 0
        told = capsys.readouterr()
        assert "ridge is here again" in told.err
        assert main(["switch", "main", "--json"]) == 0
        assert capsys.readouterr().err == ""
        staff.session.came_back.append(("ridge", "/notes/demo-ridge.ipynb"))
        assert main(["drop", "ridge", "--json"]) == 0
        assert "ridge is here again" in capsys.readouterr().err
