"""The table of commands: each is there, documented, and imported only when it is meant."""

import argparse
import errno
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from branchpoint_cli.__main__ import main
from branchpoint_cli.commands import COMMANDS
from branchpoint_cli.failing import status_of
from branchpoint_vmruntime.errors import (
    BranchpointError,
    ManifestError,
    NameTakenError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.home import Home

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
        "import sys; from branchpoint_cli.commands import arguments;"
        "[arguments([it]) for it in ('ls', 'tree', 'checkpoint', 'run')];"
        f"print([name for name in {SLOW} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


_INTERRUPTED_AS_IT_IMPORTS = """
import os, signal, sys
from branchpoint_cli.__main__ import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == "argcomplete":
            os.kill(os.getpid(), signal.SIGINT)

# A suite that was begun in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["branchpoint", "ls"]
sys.exit(main())
"""


def test_one_that_is_interrupted_before_it_has_begun_just_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_AS_IT_IMPORTS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == -signal.SIGINT
    assert (ran.stdout, ran.stderr) == ("", "")


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
        (["costs", "--force"], "--force belongs to --csv FILE"),
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


@pytest.mark.parametrize("words", [["ls"], ["tree"], ["verify"]])
def test_a_home_that_is_another_users_is_an_error_in_words(
    words: list[str],
    own_home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(self: Path, *_: Any, **__: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    # Tests may run as root, to whom nothing is closed.
    monkeypatch.setattr(Path, "exists", refused)
    assert main(words) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"✗ '{own_home.root}/")
    assert "cannot be used: Permission denied" in told


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
