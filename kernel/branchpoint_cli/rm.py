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
from branchpoint_vmruntime.removal import (
    Removed,
    has_borrowed,
    remove_session,
    require_removable,
)
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
    try:
        answer = console.input(f"Remove {what} for good? \\[y/N] ")
    except EOFError:
        # The question's line has not been ended by an answer.
        console.print()
        return False
    return answer.strip().casefold() in {"y", "yes"}


def _remove_sessions(
    meant: Sequence[SessionOverview], options: argparse.Namespace, console: Console
) -> int:
    removed: list[Removed] = []
    refused: list[tuple[SessionOverview, BranchpointError]] = []
    left, before = [*meant], 0
    # Once more while any goes: a lender can go once the one that has its branch has gone.
    while left and len(left) != before:
        before, refused = len(left), []
        for one in left:
            try:
                gone = asyncio.run(_remove(one))
            except BranchpointError as error:
                refused.append((one, error))
                continue
            removed.append(gone)
            if not options.json:
                say(console, [_line(gone)])
        left = [one for one, _ in refused]
    for _, error in refused:
        tell(error, standard_error())
    if options.json:
        as_json(removed, console)
    return status_of(refused[-1][1]) if refused else 0


def _line(gone: Removed) -> Line:
    details = [f"{size(gone.freed_bytes)} of the disk free"]
    if gone.given_back is not None:
        details.append(printable(f"{gone.given_back} is given back to {gone.given_back_to}"))
    if gone.kept:
        them = f"{gone.kept} of its checkpoints stay" if gone.kept > 1 else "a checkpoint stays"
        needed = ", ".join(gone.needed_by) or "what others have saved"
        details.append(printable(f"{them} for now, because {needed} stands on it"))
    return note("✕", f"{gone.session.id} {printable(gone.session.key)} is gone", *details)


async def _remove(session: SessionOverview) -> Removed:
    home = Home.default()
    if session.owner is not None:
        # Before it is ended, which saves nothing: what is refused goes on.
        await asyncio.to_thread(require_removable, home, session.id)
        async with SessionControl(home.control(session.id)) as control:
            await control.end(save=has_borrowed(home, session.id))
    return await asyncio.to_thread(remove_session, home, session.id)


def _remove_checkpoints(options: argparse.Namespace, console: Console) -> int:
    gone, kept = asked(options, lambda session: remove_checkpoints(session, options.checkpoint))
    lines = [Line("✕", name_of(one), ("gone",)) for one in gone]
    lines += [Line("●", name_of(one.checkpoint), (f"stays: {one.why}",)) for one in kept]
    show({"removed": gone, "kept": kept}, options, console, *lines)
    return 1 if kept else 0
