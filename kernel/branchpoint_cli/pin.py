"""`branchpoint pin`: keep checkpoints, whatever else goes."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from branchpoint_cli.common import add_checkpoint, add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import asked
from branchpoint_cli.wording import name_of
from branchpoint_kernel.rendering import Line
from branchpoint_vmruntime.control_facts import CheckpointFacts
from branchpoint_vmruntime.session_control import SessionControl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    add_checkpoint(parser, of="a checkpoint", nargs="+")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Keep them."""
    return pin_all(options, console, pinned=True)


def pin_all(options: argparse.Namespace, console: Console, *, pinned: bool) -> int:
    """Pin the checkpoints that are named, or no longer."""

    async def each(session: SessionControl) -> Sequence[CheckpointFacts]:
        return [await session.pin(name, pinned=pinned) for name in options.checkpoint]

    found = asked(options, each)
    told = "pinned" if pinned else "no longer pinned"
    show(found, options, console, *(Line("●", name_of(one), (told,)) for one in found))
    return 0
