"""`branchpoint drop`: give branches up; their checkpoints stay."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import branches, completed
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_kernel.rendering import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "a branch that is not the current one"
    action = parser.add_argument("branches", metavar="BRANCH", nargs="+", help=words)
    completed(action, branches)
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Give them up."""
    dropped = asked(options, lambda session: session.drop(options.branches))
    lines = [Line("✕", branch.name, ("dropped",)) for branch in dropped]
    show(dropped, options, console, *lines)
    return 0
