"""`branchpoint exec`: a command in a machine, at this terminal or between these pipes."""

import argparse
import asyncio
import os

from rich.console import Console

from branchpoint_cli.attaching import attach, terminal_size
from branchpoint_cli.common import add_branch_option
from branchpoint_cli.completing import completed, sessions
from branchpoint_cli.failing import of_the_system, tell
from branchpoint_cli.screen import standard_error
from branchpoint_cli.sessions import HELP, meant
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.exec_control import exec_at
from branchpoint_vmruntime.executing import ExecResult, ExecSpec
from branchpoint_vmruntime.home import Home

# Of a command that has no status of its own here, as ssh has it.
NOT_ITS_OWN = 255
_SHELL = ("bash",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    completed(parser.add_argument("--session", metavar="SESSION", help=HELP), sessions)
    add_branch_option(parser)
    parser.add_argument(
        "-t", "--tty", action="store_true", help="with this terminal; without a command, a shell"
    )
    parser.add_argument("--cwd", metavar="FOLDER", default="", help="the folder in the machine")
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_variable,
        help="a variable for the command; can be given several times",
    )
    parser.add_argument(
        "argv", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command, after all options"
    )


def run(options: argparse.Namespace, _: Console) -> int:
    """Run it; what it ends with, and 255 where that is not known."""
    argv = tuple(options.argv[1:] if options.argv[:1] == ["--"] else options.argv)
    if not argv and not options.tty:
        options.misused("say which command to run, such as `branchpoint exec ls`")
    if options.tty and not os.isatty(0):
        options.misused("-t needs a terminal, and standard input is none; leave it out")
    variables = dict(options.env)
    if options.tty and "TERM" in os.environ:
        variables.setdefault("TERM", os.environ["TERM"])
    spec = ExecSpec(
        argv=argv or _SHELL,
        folder=options.cwd,
        environment=variables,
        terminal=terminal_size() if options.tty else None,
    )
    try:
        result = asyncio.run(_run(options, spec))
    except (BranchpointError, OSError) as error:
        told = error if isinstance(error, BranchpointError) else of_the_system(error)
        tell(told, standard_error())
        return NOT_ITS_OWN
    if result.words:
        told = standard_error()
        told.print("✗", style="red", end=" ")
        told.print(result.words, markup=False)
    return result.status


async def _run(options: argparse.Namespace, spec: ExecSpec) -> ExecResult:
    home = Home.default()
    session = await meant(home, options.session)
    async with exec_at(home.control(session.id), spec, branch=options.branch) as running:
        return await attach(running, has_terminal=options.tty)


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
