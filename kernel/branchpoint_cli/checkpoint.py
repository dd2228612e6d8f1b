"""`branchpoint checkpoint`: save a branch of a session; it runs on."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import checkpoint_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("label", metavar="LABEL", nargs="?", help="what it is to be called")
    parser.add_argument("--label", dest="named", metavar="LABEL", help="the same, as an option")
    parser.add_argument("--note", default="", metavar="TEXT", help="what is to be known of it")
    parser.add_argument("--pin", action="store_true", help="keep it, whatever else goes")
    add_common(parser, branch=True)


def run(options: argparse.Namespace, console: Console) -> int:
    """Take a checkpoint."""
    if options.label is not None and options.named is not None:
        options.misused(f"{options.label!r} and --label both say what it is called; say it once")
    label = options.named if options.label is None else options.label
    made = asked(
        options,
        lambda session: session.checkpoint(
            label, note=options.note, branch=options.branch, pinned=options.pin
        ),
    )
    show(made, options, console, checkpoint_line(made))
    return 0
