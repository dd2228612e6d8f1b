"""`branchpoint unpin`: let checkpoints go again when room is wanted."""

import argparse

from rich.console import Console

from branchpoint_cli import pin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    pin.add_arguments(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """No longer keep them whatever else goes."""
    return pin.pin_all(options, console, pinned=False)
