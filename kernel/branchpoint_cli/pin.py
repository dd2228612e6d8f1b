"""`branchpoint pin`: keep checkpoints, whatever else goes."""

import argparse
import asyncio
from collections.abc import Sequence

from rich.console import Console

from branchpoint_cli.common import add_checkpoint, add_common
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import named_or_only, say_notices
from branchpoint_cli.wording import name_of
from branchpoint_kernel.rendering import Line
from branchpoint_vmruntime.control_facts import CheckpointFacts
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.session_control import SessionControl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    add_checkpoint(parser, of="a checkpoint", nargs="+")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Keep them."""
    return pin_all(options, console, pinned=True)


def pin_all(options: argparse.Namespace, console: Console, *, pinned: bool) -> int:
    """Pin the checkpoints that are named, or no longer; of a session that is open or closed."""
    found = asyncio.run(_pinned(options.session, options.checkpoint, pinned=pinned))
    told = "pinned" if pinned else "no longer pinned"
    show(found, options, console, *(Line("●", name_of(one), (told,)) for one in found))
    return 0


async def _pinned(
    name: str | None, checkpoints: Sequence[str], *, pinned: bool
) -> list[CheckpointFacts]:
    home = Home.default()
    session, opened = await named_or_only(home, name)
    if not opened:
        return _pinned_on_record(home, session, checkpoints, pinned=pinned)
    async with SessionControl(home.control(session.id)) as control:
        now = [await control.pin(each, pinned=pinned) for each in checkpoints]
        say_notices(control)
    return now


def _pinned_on_record(
    home: Home, session: SessionRecord, checkpoints: Sequence[str], *, pinned: bool
) -> list[CheckpointFacts]:
    with Journal.open(home.database) as journal:
        known = journal.checkpoints(session.id)
        found = [resolve(each, known) for each in checkpoints]
        for each in found:
            journal.pin(each.id, pinned=pinned)
    return [CheckpointFacts.of(each, pinned=pinned) for each in found]
