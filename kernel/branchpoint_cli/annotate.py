"""`branchpoint annotate`: give a checkpoint another label or note."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_checkpoint, add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import name_of
from branchpoint_kernel.rendering import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    add_checkpoint(parser, of="a checkpoint")
    parser.add_argument("--label", metavar="NEW", help="what it is to be called from now on")
    parser.add_argument("--note", metavar="TEXT", help="what is to be known of it; '' for nothing")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Annotate it."""
    if options.label is None and options.note is None:
        options.misused("give it a new --label, a --note, or both")
    now = asked(
        options,
        lambda session: session.annotate(
            options.checkpoint, label=options.label, note=options.note
        ),
    )
    show(now, options, console, Line("●", name_of(now), (now.note or "no note",)))
    return 0
