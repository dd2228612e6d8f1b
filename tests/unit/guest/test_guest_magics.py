"""The magics as IPython has them in the guest, wherever they stand in a cell."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from tests.support.fake_calls import FakeCalls

from branchpoint import CellEnded, load_ipython_extension
from branchpoint_guestkernel.magics import CELL_MAGICS, LINE_MAGICS
from branchpoint_kernel.manual import MAGICS

# It has no complete types.
Shell = Any


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Shell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    shell: Shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    load_ipython_extension(shell)
    yield shell
    InteractiveShell.clear_instance()


def lines(calls: FakeCalls) -> list[tuple[str, str]]:
    """What was asked: name and line of each magic."""
    return [(request["name"], request["line"]) for request in calls.requests]


def test_the_guest_knows_every_magic_there_is() -> None:
    manual = MAGICS.values()
    assert sorted(LINE_MAGICS) == sorted(magic.name for magic in manual if not magic.cell)
    assert sorted(CELL_MAGICS) == sorted(magic.name for magic in manual if magic.cell)


def test_magics_in_a_loop_are_done_each_time_with_its_variables(
    shell: Shell, calls: FakeCalls
) -> None:
    for _ in range(3):
        calls.done({"label": "x", "id": "y"})
    shell.run_cell("for i in range(3):\n    %checkpoint step{i} --note 'a b'").raise_error()
    assert lines(calls) == [("checkpoint", f"step{i} --note 'a b'") for i in range(3)]


def test_a_magic_works_in_a_function(shell: Shell, calls: FakeCalls) -> None:
    calls.done()
    shell.run_cell("def go():\n    %rollback a\ngo()").raise_error()
    assert lines(calls) == [("rollback", "a")]


@pytest.mark.parametrize("name", [name for name in LINE_MAGICS if name != "fork"])
def test_a_line_magic_gives_none(shell: Shell, calls: FakeCalls, name: str) -> None:
    calls.done({"label": "x", "id": "y"})
    assert shell.run_line_magic(name, "") is None


def test_a_fork_gives_zero_in_the_parent(shell: Shell, calls: FakeCalls) -> None:
    calls.done({"index": 0, "names": []})
    shell.run_cell("b = %fork 3").raise_error()
    assert shell.user_ns["b"] == 0


def test_a_fork_gives_its_index_in_the_fork(shell: Shell, calls: FakeCalls) -> None:
    calls.woken("fork", 2)
    shell.run_cell("b = %fork 3").raise_error()
    assert shell.user_ns["b"] == 2


@pytest.mark.parametrize(
    ("magic", "reason"),
    [
        ("checkpoint a", "fork"),
        ("checkpoint a", "rollback"),
        ("fork 2", "rollback"),
        ("rollback a", "fork"),
        ("branches", "reopen"),
    ],
)
def test_a_magic_that_the_machine_was_woken_in_ends_its_cell(
    shell: Shell, calls: FakeCalls, magic: str, reason: str
) -> None:
    calls.woken(reason, 1)
    code = f"try:\n    %{magic}\nexcept Exception:\n    pass\nreached = True"
    result = shell.run_cell(code)
    assert isinstance(result.error_in_exec, CellEnded)
    assert "reached" not in shell.user_ns


def test_a_cell_that_ends_so_says_nothing(
    shell: Shell, calls: FakeCalls, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.woken("rollback")
    shell.run_cell("if True:\n    %checkpoint a")
    shown = capsys.readouterr()
    assert (shown.out.strip(), shown.err) == ("", "")


def test_a_magic_shows_what_the_host_gives_it_to_show(shell: Shell, calls: FakeCalls) -> None:
    calls.done({"label": "x", "id": "y"}, {"text/plain": "● x", "text/html": "<b>x</b>"})
    with capture_output() as captured:
        shell.run_line_magic("checkpoint", "x")
    shown: Any = captured.outputs
    assert shown[0].data == {"text/plain": "● x", "text/html": "<b>x</b>"}


def test_a_cell_magic_sends_its_body(shell: Shell, calls: FakeCalls) -> None:
    calls.done()
    shell.run_cell_magic("branch", "all", "x = 1\n")
    assert (calls.requests[0]["line"], calls.requests[0]["body"]) == ("all", "x = 1\n")


def test_a_refused_magic_says_what_to_do_without_a_traceback(
    shell: Shell, calls: FakeCalls, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.refused("%fork needs a number", "type %fork N")
    shell.run_cell("if True:\n    %fork")
    shown = capsys.readouterr()
    assert "UsageError: %fork needs a number\ntype %fork N" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_outside_a_machine_a_magic_says_which_kernel_to_choose(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%checkpoint a")
    shown = capsys.readouterr()
    assert "choose the kernel Python 3 (microVM)" in shown.out + shown.err
