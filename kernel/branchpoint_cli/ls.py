"""`branchpoint ls`: all sessions at one glance, and what was left behind by those that ended."""

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from branchpoint_cli.screen import as_json, say
from branchpoint_cli.wording import span
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import size
from branchpoint_kernel.tables import table
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import Leak, LeakKind
from branchpoint_vmruntime.lineage import BranchRecord, BranchState
from branchpoint_vmruntime.overview import SessionOverview, SpentSoFar, overview

# The name comes last: it may be as long as a path, and in letters of any width.
_HEAD = ("id", "state", "age", "branches", "checkpoints", "own", "shared", "disk", "cost", "name")
_RIGHT = frozenset({4, 5, 6, 7})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """List them, oldest first."""
    found = overview(Home.default())
    if options.json:
        as_json(found, console)
        return 0
    if found.sessions:
        say(console, table(_HEAD, [_row(session) for session in found.sessions], _RIGHT))
    else:
        console.print("no sessions yet")
    for leak in found.leaks:
        console.print(f"! {leak_words(leak)}", markup=False, soft_wrap=True)
    if found.leaks:
        console.print("  `branchpoint sweep` removes what was left behind", markup=False)
    return 0


def leak_words(leak: Leak) -> str:
    """What was left behind, and by which session.

    >>> leak_words(Leak(kind=LeakKind.MACHINE, session="7f3c", bytes=55_000_000, pid=42))
    'left behind by session 7f3c: a machine, process 42, 55 MB of memory'
    """
    of = f"left behind by session {printable(leak.session)}: "
    match leak.kind:
        case LeakKind.MACHINE:
            return f"{of}a machine, process {leak.pid}, {size(leak.bytes)} of memory"
        case LeakKind.SOCKET:
            return f"{of}a socket, {printable(str(leak.path))}"
        case LeakKind.FOLDER:
            return f"{of}{printable(str(leak.path))}, {size(leak.bytes)}"


def branches_in_words(branches: Sequence[BranchRecord], *, opened: bool) -> str:
    """How many there are of each kind; those given up do not count."""
    states = Counter(state_of(branch, opened=opened) for branch in branches)
    del states[BranchState.DROPPED]
    return ", ".join(f"{states[state]} {state.value}" for state in BranchState if states[state])


def state_of(branch: BranchRecord, *, opened: bool) -> BranchState:
    """What has become of a branch; where nobody has the session open, no machine can be left."""
    if branch.state is BranchState.LIVE and not opened:
        return BranchState.LOST
    return branch.state


def _row(session: SessionOverview) -> Sequence[str]:
    age_s = (datetime.now(UTC) - session.created_at).total_seconds()
    return (
        session.id,
        _state(session),
        span(age_s),
        branches_in_words(session.branches, opened=session.open),
        str(session.checkpoints),
        size(session.own_bytes) if session.machines else "",
        size(session.shared_bytes) if session.machines else "",
        size(session.disk_bytes),
        _spent(session.spent),
        printable(session.key),
    )


def _state(session: SessionOverview) -> str:
    if session.owner is None:
        return "closed"
    return f"open: {session.owner.kind.value} {session.owner.pid}"


def _spent(spent: SpentSoFar) -> str:
    tokens = spent.tokens_in + spent.tokens_out
    parts = (
        f"{spent.requests} requests" if spent.requests else "",
        f"{spent.refused} refused" if spent.refused else "",
        f"{tokens} tokens" if tokens else "",
        f"{spent.micros / 1e6:.4f}" if spent.micros else "",
    )
    return ", ".join(filter(None, parts))
