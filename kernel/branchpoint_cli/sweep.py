"""`branchpoint sweep`: remove what was left behind by sessions whose owner has ended."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from branchpoint_cli.failing import tell
from branchpoint_cli.ls import leak_words
from branchpoint_cli.screen import show, standard_error
from branchpoint_kernel.rendering import note, size
from branchpoint_vmruntime.errors import StorageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import Leak, LeakKind, leaks, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """End their machines, remove their files; 1 if some stay. Checkpoints on record stay."""
    home = Home.default()
    if home.root.is_dir():
        # Where nothing can be removed it is not said that there is nothing to remove.
        home.ensure()
    swept = sweep(home)
    stays = leaks(home)
    lines = [note("✕", leak_words(leak)) for leak in swept]
    freed = sum(leak.bytes for leak in swept if leak.kind is not LeakKind.MACHINE)
    if swept or stays:
        lines.append(note("●", f"gone: {len(swept)}, {size(freed)} of the disk free"))
    else:
        lines.append(note("●", "nothing to sweep"))
    lines += [note("!", leak_words(leak)) for leak in stays]
    show(swept, options, console, *lines)
    if stays:
        tell(_not_gone(stays), standard_error())
    return 1 if stays else 0


def _not_gone(stays: Sequence[Leak]) -> StorageError:
    return StorageError(
        f"{len(stays)} of what was left behind could not be removed",
        hint="check the disk and its permissions, and sweep again",
    )
