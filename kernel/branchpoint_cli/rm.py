"""`branchpoint rm`: remove sessions with all that is theirs, or checkpoints of one."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import checkpoints, completed, sessions
from branchpoint_cli.failing import status_of, tell
from branchpoint_cli.removing import remove_checkpoints
from branchpoint_cli.screen import as_json, say, show, standard_error
from branchpoint_cli.sessions import asked, named
from branchpoint_cli.wording import name_of
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.overview import SessionOverview, overview
from branchpoint_vmruntime.removal import Removed, remove_session
from branchpoint_vmruntime.session_control import SessionControl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "a session to remove: its id or the start of it, its key or notebook"
    action = parser.add_argument("sessions", metavar="SESSION", nargs="*", help=words)
    completed(action, sessions)
    words = "remove these checkpoints instead, by label or id"
    action = parser.add_argument("--checkpoint", metavar="CHECKPOINT", nargs="+", help=words)
    completed(action, checkpoints)
    parser.add_argument("--yes", action="store_true", help="do not ask, at a terminal either")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Remove them; 1 if something stays that was to go."""
    if options.checkpoint:
        if options.sessions:
            options.misused("with --checkpoint, say with --session whose they are")
        return _remove_checkpoints(options, console)
    names = [*options.sessions, *filter(None, [options.session])]
    if not names:
        options.misused("say which session, or which --checkpoint")
    there = overview(Home.default()).sessions
    # All of them first: a name that is not known removes nothing.
    meant = list({one.id: one for one in (named(name, there) for name in names)}.values())
    if not options.yes and sys.stdin.isatty() and not _agreed(meant, console):
        console.print("nothing was removed")
        return 1
    return _remove_sessions(meant, options, console)


def _agreed(meant: Sequence[SessionOverview], console: Console) -> bool:
    for one in meant:
        opened = "open, " if one.open else ""
        console.print(
            f"{one.id} {printable(one.key)}: {opened}{one.checkpoints} checkpoints,"
            f" {size(one.disk_bytes)} on the disk",
            markup=False,
        )
    what = "this session" if len(meant) == 1 else f"these {len(meant)} sessions"
    answer = console.input(f"Remove {what} for good? \\[y/N] ")
    return answer.strip().casefold() in {"y", "yes"}


def _remove_sessions(
    meant: Sequence[SessionOverview], options: argparse.Namespace, console: Console
) -> int:
    removed: list[Removed] = []
    status = 0
    for one in meant:
        try:
            gone = asyncio.run(_remove(one))
        except BranchpointError as error:
            tell(error, standard_error())
            status = status_of(error)
            continue
        removed.append(gone)
        if not options.json:
            key = f"{one.id} {printable(one.key)} is gone"
            say(console, [note("✕", key, f"{size(gone.freed_bytes)} of the disk free")])
    if options.json:
        as_json(removed, console)
    return status


async def _remove(session: SessionOverview) -> Removed:
    home = Home.default()
    if session.owner is not None:
        async with SessionControl(home.control(session.id)) as control:
            await control.end(save=False)
    return await asyncio.to_thread(remove_session, home, session.id)


def _remove_checkpoints(options: argparse.Namespace, console: Console) -> int:
    gone, kept = asked(options, lambda session: remove_checkpoints(session, options.checkpoint))
    lines = [Line("✕", name_of(one), ("gone",)) for one in gone]
    lines += [Line("●", name_of(one.checkpoint), (f"stays: {one.why}",)) for one in kept]
    show({"removed": gone, "kept": kept}, options, console, *lines)
    return 1 if kept else 0
