"""`branchpoint rollback`: a branch goes back to a checkpoint."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_checkpoint, add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import rollback_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    add_checkpoint(parser, of="where to; by default the branch's last", nargs="?")
    parser.add_argument(
        "--no-safety", action="store_true", help="do not save first what is given up"
    )
    add_common(parser, branch=True)


def run(options: argparse.Namespace, console: Console) -> int:
    """Go back."""
    report = asked(
        options,
        lambda session: session.rollback(
            options.checkpoint, branch=options.branch, safety=not options.no_safety
        ),
    )
    show(report, options, console, *rollback_lines(report))
    return 0
