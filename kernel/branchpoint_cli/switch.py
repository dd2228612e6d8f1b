"""`branchpoint switch`: a session continues as another of its branches."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import branches, completed
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import switch_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    completed(parser.add_argument("branch", metavar="BRANCH", help="the branch"), branches)
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Continue as that branch; one without a machine is woken."""
    branch = asked(options, lambda session: session.switch(options.branch))
    show(branch, options, console, switch_line(branch))
    return 0
