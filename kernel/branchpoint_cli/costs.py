"""`branchpoint costs`: what a session's branches and operations have cost, open or not."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import completed, sessions
from branchpoint_cli.ls import state_of
from branchpoint_cli.screen import as_json, say
from branchpoint_cli.sessions import HELP, named_or_only
from branchpoint_kernel.costs_files import Saved, saved_lines, write_costs
from branchpoint_kernel.costs_rendering import CostsTold, costs_lines, costs_record
from branchpoint_kernel.costs_told import put_together
from branchpoint_kernel.effects import printable
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage_view import BranchView, LineageView
from branchpoint_vmruntime.outside.costs import BranchCost, Costs
from branchpoint_vmruntime.session_control import SessionControl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    completed(parser.add_argument("named", metavar="SESSION", nargs="?", help=HELP), sessions)
    words = "write FILE, a row for each operation, and beside it FILE-branches"
    parser.add_argument("--csv", metavar="FILE", type=Path, help=words)
    parser.add_argument("--force", action="store_true", help="replace files that are in its way")
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Show it, or write it down."""
    if options.named and options.session:
        options.misused(f"{options.named!r} and --session both name a session; name one")
    if options.force and options.csv is None:
        options.misused("--force belongs to --csv FILE: it replaces whatever file is there")
    home = Home.default()
    session, opened = asyncio.run(named_or_only(home, options.named or options.session))
    view = asyncio.run(_view(home, session.id)) if opened else None
    told = _told(home, session, view, opened=opened)
    saved: Sequence[Saved] = ()
    if options.csv is not None:
        with Journal.read(home.database) as journal:
            checkpoints = journal.checkpoints(session.id)
        saved = write_costs(told, checkpoints, options.csv, replaces=options.force)
    if options.json:
        record = {"session": session.id, **costs_record(told), "files": [it.path for it in saved]}
        as_json({**record, "operations": [asdict(it) for it in told.operations]}, console)
    elif saved:
        say(console, saved_lines(saved, str))
    else:
        console.print(f"{session.id} {printable(session.key)}", markup=False, soft_wrap=True)
        say(console, costs_lines(told))
    return 0


async def _view(home: Home, session: str) -> LineageView | None:
    """What only the owner knows; nothing, if it ends just now or is held up."""
    with suppress(BranchpointError):
        async with SessionControl(home.control(session)) as control:
            return await control.view()
    return None


def _told(
    home: Home, session: SessionRecord, view: LineageView | None, *, opened: bool
) -> CostsTold:
    with Journal.read(home.database) as journal:
        records = journal.branches(session.id)
        checkpoints, operations = journal.checkpoints(session.id), journal.operations(session.id)
    known = {it.facts.name: it for it in (view.branches if view else ())}
    return put_together(
        [replace(it, state=state_of(it, opened=opened)) for it in records],
        checkpoints,
        operations,
        _spent(home, session),
        lived_s=lambda name: known[name].lived_s if name in known else None,
        memory=lambda name: _memory(known.get(name)),
        limits=None,
        currency=view.currency if view else "",
    )


def _memory(branch: BranchView | None) -> MemoryUse | None:
    if branch is None or branch.facts.own_bytes is None or branch.facts.shared_bytes is None:
        return None
    own, shared = branch.facts.own_bytes, branch.facts.shared_bytes
    return MemoryUse(own_bytes=own, shared_bytes=shared)


def _spent(home: Home, session: SessionRecord) -> Sequence[BranchCost]:
    if not home.ledger.exists():
        return ()
    with Ledger.read(home.ledger) as ledger:
        return Costs(ledger).by_branch(session.id)
