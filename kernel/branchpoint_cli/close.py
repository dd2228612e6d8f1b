"""`branchpoint close`: end the process that owns a session; the session stays."""

import argparse

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import name_of
from branchpoint_kernel.rendering import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--no-save", action="store_true", help="do not save its live branches")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Save its branches and end it; 1 if one could not be saved."""
    ended = asked(options, lambda session: session.end(save=not options.no_save))
    lines = [
        Line("‖", one.branch.name, (f"paused at {name_of(one.checkpoint)}",)) for one in ended.saved
    ]
    lines += [Line("✕", name, ("not saved",)) for name in ended.lost]
    show(ended, options, console, *lines)
    return 1 if ended.lost and not options.no_save else 0
