"""`branchpoint sweep`: remove what was left behind by sessions whose owner has ended."""

import argparse

from rich.console import Console

from branchpoint_cli.ls import leak_words
from branchpoint_cli.screen import show
from branchpoint_kernel.rendering import note, size
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import LeakKind, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """End their machines, remove their files. Checkpoints on record stay."""
    swept = sweep(Home.default())
    lines = [note("✕", leak_words(leak)) for leak in swept]
    freed = sum(leak.bytes for leak in swept if leak.kind is not LeakKind.MACHINE)
    ending = f"gone: {len(swept)}, {size(freed)} of the disk free" if swept else "nothing to sweep"
    show(swept, options, console, *lines, note("●", ending))
    return 0
