"""`branchpoint`: prepare this host and look at it; open, see, fork and roll back sessions."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module

import argcomplete

from branchpoint_cli.failing import near, of_the_system, status_of, tell
from branchpoint_cli.screen import NobodyReadsError, let_go, standard_error, standard_output
from branchpoint_vmruntime.entering import enter
from branchpoint_vmruntime.errors import BranchpointError

INTERRUPTED = 130
NOBODY_READS = 141

# Every command: the module that has its `add_arguments(parser)` and `run(options, console)`, and
# what it does. A module is imported only when its command is meant: some take seconds.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "setup": (
        "branchpoint_cli.setup",
        "Install or build what is missing, each step skipped when its result is there.",
    ),
    "doctor": (
        "branchpoint_cli.doctor",
        "Say what this host has, what follows from it and what to do about it.",
    ),
    "demo": (
        "branchpoint_cli.demo",
        "Run the quickstart notebook and write what came of it.",
    ),
    "create": (
        "branchpoint_cli.create",
        "Open a session without a notebook, owned by a small process of its own.",
    ),
    "ls": (
        "branchpoint_cli.ls",
        "List all sessions, open or not, and what was left behind by those that ended.",
    ),
    "tree": (
        "branchpoint_cli.tree",
        "Draw a session's checkpoints and branches.",
    ),
    "run": (
        "branchpoint_cli.run",
        "Run code in a branch's kernel and show what it wrote.",
    ),
    "exec": (
        "branchpoint_cli.exec",
        "Run a command in a machine, at this terminal or between these pipes.",
    ),
    "checkpoint": (
        "branchpoint_cli.checkpoint",
        "Save a branch; it runs on.",
    ),
    "fork": (
        "branchpoint_cli.fork",
        "Make further live branches, from here or from a checkpoint.",
    ),
    "rollback": (
        "branchpoint_cli.rollback",
        "Have a branch go back to a checkpoint.",
    ),
    "switch": (
        "branchpoint_cli.switch",
        "Continue as another branch.",
    ),
    "drop": (
        "branchpoint_cli.drop",
        "Give branches up; their checkpoints stay.",
    ),
    "pause": (
        "branchpoint_cli.pause",
        "Save a branch and end its machine until something is wanted of it.",
    ),
    "resume": (
        "branchpoint_cli.resume",
        "Give a branch its machine again; a closed session is opened for it.",
    ),
    "close": (
        "branchpoint_cli.close",
        "Save a session and end the process that owns it.",
    ),
    "annotate": (
        "branchpoint_cli.annotate",
        "Give a checkpoint another label or note.",
    ),
    "pin": (
        "branchpoint_cli.pin",
        "Keep checkpoints, whatever else goes.",
    ),
    "unpin": (
        "branchpoint_cli.unpin",
        "No longer keep checkpoints whatever else goes.",
    ),
    "rename": (
        "branchpoint_cli.rename",
        "Have a session be found by another name, or by where its notebook is now.",
    ),
    "rm": (
        "branchpoint_cli.rm",
        "Remove sessions with all that is theirs, or checkpoints.",
    ),
    "sweep": (
        "branchpoint_cli.sweep",
        "Remove what sessions left behind whose owner has ended.",
    ),
    "gc": (
        "branchpoint_cli.gc",
        "Remove what is no longer needed or over budget, or say with --dry-run what that is.",
    ),
    "verify": (
        "branchpoint_cli.verify",
        "Look whether all that was saved is what was written, and name what is damaged.",
    ),
    "forward": (
        "branchpoint_cli.forward",
        "Forward a port of a session's machine to 127.0.0.1, list what is forwarded, or end it.",
    ),
    "ledger": (
        "branchpoint_cli.ledger",
        "Show what a session's machines did outside, and what was refused; open or not.",
    ),
    "costs": (
        "branchpoint_cli.costs",
        "Show what a session's branches have cost, or write that and each operation as CSV.",
    ),
    "image": (
        "branchpoint_cli.image",
        "List the images, what is in each beyond the everyday, and what needs it.",
    ),
    "export": (
        "branchpoint_cli.export",
        "Write a checkpoint, with all it needs, as one file.",
    ),
    "import": (
        "branchpoint_cli.import_",
        "Take in a file that `export` wrote, as a session of its own.",
    ),
    "bench": (
        "branchpoint_cli.bench.run",
        "Measure what operations cost, each against its floor in the same run.",
    ),
    "completion": (
        "branchpoint_cli.completion",
        "Print what makes a shell complete these commands.",
    ),
}


def arguments(words: Sequence[str]) -> argparse.ArgumentParser:
    """What the command understands; in full for the one that is the first of `words`."""
    parser = argparse.ArgumentParser(prog="branchpoint", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = _command_in(words)
    for name, (module, does) in COMMANDS.items():
        command = commands.add_parser(name, help=does, description=does, allow_abbrev=False)
        if name == wanted:
            loaded = import_module(module)
            loaded.add_arguments(command)
            command.set_defaults(run=loaded.run, misused=command.error, usage=command.format_help())
    return parser


def run(words: Sequence[str], *, alone: bool) -> int:
    """Run one command; errors in words, with what to do. `alone` if the process is for it only."""
    try:
        if alone:
            enter()
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except NobodyReadsError:
        return NOBODY_READS
    finally:
        let_go()


def _run(words: Sequence[str]) -> int:
    console = standard_output()
    options = _parsed(words)
    try:
        return options.run(options, console)
    except BranchpointError as error:
        tell(error, standard_error())
        return status_of(error)
    except OSError as error:
        refused = of_the_system(error)
        tell(refused, standard_error())
        return status_of(refused)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    if "_ARGCOMPLETE" in os.environ:
        typed = os.environ.get("COMP_LINE", "").split()[1:]
        argcomplete.autocomplete(arguments(typed), always_complete_options=False)
    parser = arguments(words)
    wanted = _command_in(words)
    if wanted and wanted not in COMMANDS:
        meant = near(wanted, COMMANDS) or "`branchpoint --help` lists all"
        parser.error(f"there is no command {wanted!r}; {meant}")
    options, extra = parser.parse_known_args(words)
    if extra:
        there = sorted({f"--{name}" for name in re.findall(r"--([a-z][a-z-]+)", options.usage)})
        meant = near(extra[0].partition("=")[0], there) or f"there is: {', '.join(there)}"
        options.misused(f"{extra[0]!r} is not understood; {meant}")
    return options


def _command_in(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")
