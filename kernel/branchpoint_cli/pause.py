"""`branchpoint pause`: save a branch and end its machine until something is wanted of it."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import branches, completed
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import pause_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "the branch; by default the current one"
    completed(parser.add_argument("branch", metavar="BRANCH", nargs="?", help=words), branches)
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Give its memory and processor back."""
    report = asked(options, lambda session: session.pause(options.branch))
    show(report, options, console, pause_line(report))
    return 0
