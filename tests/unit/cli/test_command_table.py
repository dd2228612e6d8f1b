"""The table of commands: each is there, documented, and imported only when it is meant."""

import argparse
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from branchpoint_cli.__main__ import COMMANDS, main
from branchpoint_cli.failing import status_of
from branchpoint_vmruntime.errors import (
    BranchpointError,
    ManifestError,
    NameTakenError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
# Each takes a second to import, or more.
SLOW = ("nbclient", "nbconvert", "matplotlib", "pandas", "branchpoint_cli.bench")


def options_of(name: str) -> set[str]:
    """The long options a command has."""
    parser = argparse.ArgumentParser(prog=name)
    import_module(COMMANDS[name][0]).add_arguments(parser)
    return set(re.findall(r"--[a-z][a-z-]+", parser.format_help())) - {"--help"}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_documented_with_its_options(name: str) -> None:
    page = REFERENCE.read_text()
    section = re.search(rf"^## `branchpoint {name}\b.*?(?=^## |\Z)", page, re.M | re.S)
    assert section is not None
    assert {option for option in options_of(name) if option not in section[0]} == set()


def test_commands_that_look_at_sessions_import_nothing_that_is_slow() -> None:
    code = (
        "import sys; from branchpoint_cli.__main__ import arguments;"
        "[arguments([it]) for it in ('ls', 'tree', 'checkpoint', 'run')];"
        f"print([name for name in {SLOW} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["chekpoint"], "there is no command 'chekpoint'; did you mean 'checkpoint'?"),
        (["zzz"], "there is no command 'zzz'; `branchpoint --help` lists all"),
        (["rollback", "--no-safty"], "'--no-safty' is not understood; did you mean '--no-safety'?"),
        (["ls", "--zzz"], "'--zzz' is not understood; there is: --help, --json"),
        (["fork", "0"], "'0' is not a number from 1 on"),
        (["fork", "x"], "'x' is not a number from 1 on"),
        (["rm"], "say which session, or which --checkpoint"),
        (["rm", "a", "--checkpoint", "b"], "say with --session whose they are"),
        (["tree", "a", "--session", "b"], "'a' and --session both name a session"),
        (["create", "--name", "a/b"], "'a/b' is no name for a session"),
        (["create", "--name", "\n"], "is no name for a session"),
        (["completion", "csh"], "invalid choice: 'csh'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_what_makes_no_sense_is_quoted_and_ends_with_two(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as over:
        main(words)
    assert over.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BranchpointError("no"), 1),
        (UsageError("no"), 1),
        (ManifestError("no"), 1),
        (NameTakenError("no"), 1),
        (UnknownNameError("branch", "x", ()), 3),
        (SessionBusyError("no"), 4),
    ],
)
def test_a_status_tells_what_a_script_can_do_about_it(error: BranchpointError, status: int) -> None:
    assert status_of(error) == status
