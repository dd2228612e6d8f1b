"""`branchpoint fork`: further live branches, from here or from a checkpoint."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common, names, positive
from branchpoint_cli.completing import checkpoints, completed
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import fork_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("count", metavar="N", nargs="?", type=positive, help="how many")
    words = "start from this checkpoint instead of from this moment"
    completed(
        parser.add_argument("--from", dest="start", metavar="CHECKPOINT", help=words), checkpoints
    )
    parser.add_argument(
        "--names", type=names, default=(), metavar="A,B,C", help="what they are to be called"
    )
    parser.add_argument(
        "--same-random", action="store_true", help="leave random generators equal in all of them"
    )
    add_common(parser, branch=True)


def run(options: argparse.Namespace, console: Console) -> int:
    """Make the branches; 1 if one of them did not come up."""
    report = asked(
        options,
        lambda session: session.fork(
            options.count or len(options.names) or 1,
            start=options.start,
            names=options.names,
            branch=options.branch,
            same_random=options.same_random,
        ),
    )
    show(report, options, console, *fork_lines(report))
    return 1 if report.failures else 0
