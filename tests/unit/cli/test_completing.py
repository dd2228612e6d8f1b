"""What a shell is offered when its user asks for more of a command's words."""

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session

from branchpoint_cli.__main__ import main
from branchpoint_cli.commands import COMMANDS
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage.journal import Journal

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(own_home: Home, tmp_path: Path) -> Complete:
    """What a line is completed with, in a home with two closed sessions."""
    with Journal.open(own_home.database) as journal:
        journal.add_checkpoint(a_base(), advance=None)
        for session, key in (("aa0000000000", "erste"), ("bb0000000000", "zweite")):
            journal.add_session(a_session(session, key))
            journal.put_branch(a_branch("main", session=session))
            label = f"geladen-{key}"
            journal.add_checkpoint(
                a_checkpoint(f"{session}-1", label=label, session=session), advance=None
            )
        journal.put_branch(a_branch("ridge", session="aa0000000000"))
        journal.put_branch(a_branch("gone", session="aa0000000000", state=BranchState.DROPPED))
    offered = tmp_path / "offered"

    def ask(line: str) -> list[str]:
        environment = os.environ | {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(offered),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line.encode())),
            "COMP_TYPE": "9",
        }
        command = [sys.executable, "-P", "-m", "branchpoint_cli"]
        ran = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert ran.stdout == b""
        return offered.read_text().split()

    return ask


def test_the_names_of_commands_are_offered(complete: Complete) -> None:
    assert complete("branchpoint ro") == ["rollback"]


def test_the_options_of_a_command_are_offered(complete: Complete) -> None:
    assert complete("branchpoint fork --sam") == ["--same-random"]


def test_sessions_are_offered_by_their_keys_and_ids(complete: Complete) -> None:
    offered = {"erste", "zweite", "aa0000000000", "bb0000000000"}
    assert set(complete("branchpoint rm ")) >= offered


def test_the_branches_and_checkpoints_of_the_session_that_is_meant_are_offered(
    complete: Complete,
) -> None:
    assert complete("branchpoint switch --session erste ") == ["main", "ridge"]
    assert complete("branchpoint rollback --session zweite gel") == ["geladen-zweite"]


def test_a_session_that_is_not_there_has_nothing_to_offer(complete: Complete) -> None:
    assert complete("branchpoint rollback --session dritte gel") == []


@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_names_a_session_a_branch_or_a_checkpoint_is_completed(command: str) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    named = [it for it in parser._actions if it.metavar in {"SESSION", "BRANCH", "CHECKPOINT"}]
    named += [it for it in parser._actions if {"--session", "--branch"} & {*it.option_strings}]
    assert [it.dest for it in named if not hasattr(it, "completer")] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_how_to_ask(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "branchpoint" in out
    assert "_ARGCOMPLETE" in out


def test_what_bash_is_told_is_bash(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
