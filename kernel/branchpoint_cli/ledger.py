"""`branchpoint ledger`: what a session's machines did outside, read from disk; nobody is asked."""

import argparse
import asyncio
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from branchpoint_cli.completing import branches, checkpoints, completed, sessions
from branchpoint_cli.screen import as_json
from branchpoint_cli.sessions import HELP, listed, named, the_only_one
from branchpoint_kernel.effects import effect_record, entry_words, outcome_words, printable
from branchpoint_kernel.rendering import size
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.session_control import open_sessions

# They take effect as they are written: there is no outcome to wait for.
_AT_ONCE = frozenset({EntryKind.POLICY, EntryKind.SECRET, EntryKind.WAKE})
_HEAD = ("time", "branch", "what", "outcome", "sent", "received", "tokens", "money")
_MAY_BE_LONG = ("what", "outcome")
_WIDTH_IN_FILES = 160


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    completed(parser.add_argument("--session", metavar="SESSION", help=HELP), sessions)
    words = "of this branch alone"
    completed(parser.add_argument("--branch", metavar="NAME", help=words), branches)
    words = "label, or start of the id"
    completed(parser.add_argument("--since", metavar="CHECKPOINT", help=words), checkpoints)
    parser.add_argument("--json", action="store_true", help="as JSON, with when machines woke")


def run(options: argparse.Namespace, console: Console) -> int:
    """Show what a session's machines did outside, and what was refused; open or not."""
    home = Home.default()
    running = {session.id for session in asyncio.run(open_sessions(home))}
    with Journal.read(home.database) as journal:
        session = _session(options.session, journal.sessions(), running)
        since = 0
        if options.since:
            since = resolve(options.since, journal.checkpoints(session.id)).moment.position
        known = [branch.name for branch in journal.branches(session.id)]
    entries = _entries(home, session, since)
    if options.branch:
        entries = _of_branch(options.branch, entries, known)
    if options.json:
        as_json([dict(effect_record(entry)) for entry in entries], console)
    else:
        _show(entries, console, running=session.id in running)
    return 0


def _session(
    name: str | None, sessions: Sequence[SessionRecord], running: set[str]
) -> SessionRecord:
    if name:
        return named(name, sessions)
    if not running and sessions:
        if len(sessions) == 1:
            return sessions[0]
        newest = listed(list(reversed(sessions)))
        raise UsageError(
            f"no session is open; {len(sessions)} are on record, the newest first: {newest}",
            hint="say which with --session",
        )
    return the_only_one([session for session in sessions if session.id in running])


def _entries(home: Home, session: SessionRecord, since: int) -> Sequence[Entry]:
    if not home.ledger.exists():
        return []
    with Ledger.read(home.ledger) as ledger:
        return ledger.entries(session.id, since=since)


def _of_branch(name: str, entries: Sequence[Entry], known: Sequence[str]) -> Sequence[Entry]:
    # An earlier kernel's branches bear other names by now; what they did keeps the old ones.
    there = list(dict.fromkeys([*known, *(entry.draft.branch for entry in entries)]))
    if name not in there:
        raise UnknownNameError("branch", name, tuple(printable(one) for one in there))
    return [entry for entry in entries if entry.draft.branch == name]


def _show(entries: Sequence[Entry], console: Console, *, running: bool) -> None:
    shown = [entry for entry in entries if entry.draft.kind is not EntryKind.WAKE]
    if not shown:
        console.print("nothing has left a machine, and nothing was refused")
        return
    rows = [_row(entry, running=running) for entry in shown]
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_IN_FILES)
    table = Table(show_edge=False, box=SIMPLE_HEAD)
    used = [at for at in range(len(_HEAD)) if any(row[at] for row in rows)]
    for at in used:
        long = _HEAD[at] in _MAY_BE_LONG
        justify = "right" if at >= _HEAD.index("sent") else "left"
        table.add_column(_HEAD[at], justify=justify, no_wrap=not long, overflow="fold")
    for row in rows:
        # The machine chose what is in a request: nothing of it may be taken for markup.
        table.add_row(*(escape(row[at]) for at in used))
    console.print(table)


def _row(entry: Entry, *, running: bool) -> Sequence[str]:
    outcome = entry.outcome
    usage = outcome.usage if outcome else None
    return (
        f"{entry.at.astimezone():%m-%d %H:%M:%S}",
        printable(entry.draft.branch),
        entry_words(entry),
        _outcome(entry, running=running),
        size(outcome.sent_bytes) if outcome and outcome.sent_bytes else "",
        size(outcome.received_bytes) if outcome and outcome.received_bytes else "",
        f"{usage.tokens_in} + {usage.tokens_out}" if usage else "",
        f"{usage.micros / 1e6:.4f}" if usage and usage.micros is not None else "",
    )


def _outcome(entry: Entry, *, running: bool) -> str:
    decision = entry.draft.decision
    if decision is Decision.REFUSED:
        return f"refused: {printable(entry.draft.reason)}"
    if decision is Decision.REPLAYED:
        return "given again"
    if entry.outcome is None:
        if entry.draft.kind in _AT_ONCE:
            return ""
        # Whoever could have written how it ended is gone.
        return outcome_words(None) if running else "outcome unknown"
    note = printable(entry.outcome.note)
    return f"{outcome_words(entry.outcome)}: {note}" if note else outcome_words(entry.outcome)
