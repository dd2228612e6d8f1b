"""`branchpoint tree`: a session's checkpoints and branches, open or not."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import completed, sessions
from branchpoint_cli.drawing import Known, draw
from branchpoint_cli.ls import state_of
from branchpoint_cli.screen import as_json
from branchpoint_cli.sessions import HELP, named_or_only
from branchpoint_cli.wording import memory
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import open_as
from branchpoint_vmruntime.borrowers import as_it_is
from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts, to_json
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, Checkpoint
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.storage.sizes import checkpoint_sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    completed(parser.add_argument("named", metavar="SESSION", nargs="?", help=HELP), sessions)
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Draw it, the oldest first."""
    if options.named and options.session:
        options.misused(f"{options.named!r} and --session both name a session; name one")
    home = Home.default()
    session, opened = asyncio.run(named_or_only(home, options.named or options.session))
    machines = asyncio.run(_machines(home, session.id)) if opened else ()
    # A machine that has ended by itself is on record once its owner does something more.
    lost = {one.name for one in machines if one.state is BranchState.LOST}
    with Journal.read(home.database) as journal:
        session = journal.session(session.id) or session
        branches = [
            replace(branch, state=state_of(branch, opened=opened and branch.name not in lost))
            for branch in (as_it_is(home, journal, it) for it in journal.branches(session.id))
        ]
        checkpoints = journal.checkpoints(session.id, (it.head for it in branches))
        pins = frozenset(journal.pins())
        keys = {it.id: it.key for it in journal.sessions()}
    disk = checkpoint_sizes(home, checkpoints)
    current = next((one.name for one in machines if one.current), session.current)
    if options.json:
        found: Mapping[str, object] = {
            "session": session,
            "current": current,
            "branches": branches,
            "machines": machines,
            "checkpoints": [
                {**_facts(one, pinned=one.id in pins), "disk": disk[one.id]} for one in checkpoints
            ],
        }
        as_json(found, console)
        return 0
    words = {one.name: memory(one) for one in machines}
    lent = {str(it.name): it.lent_to for it in branches if it.lent_to is not None}
    words |= {name: printable(open_as(keys.get(to, to))) for name, to in lent.items()}
    known = Known(current=current, pins=pins, memory=words, disk=disk)
    console.print(f"{session.id} {printable(session.key)}", markup=False, soft_wrap=True)
    for line in draw(checkpoints, branches, known):
        console.print(line, markup=False, soft_wrap=True)
    return 0


def _facts(checkpoint: Checkpoint, *, pinned: bool) -> Mapping[str, object]:
    return to_json(CheckpointFacts.of(checkpoint, pinned=pinned))


async def _machines(home: Home, session: str) -> Sequence[BranchFacts]:
    """What only the owner knows; nothing, if it ends just now or is held up."""
    with suppress(BranchpointError):
        async with SessionControl(home.control(session)) as control:
            return await control.branches()
    return ()
