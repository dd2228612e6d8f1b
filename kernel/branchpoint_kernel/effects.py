"""What has left a machine, in words: what going back leaves as it is. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from branchpoint_kernel.leaving import Effects
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.ledger import Entry, EntryKind, Outcome, OutcomeState

# Requests of these methods change nothing, by what HTTP says of them.
READS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_NAMED = 5
_LONGEST_PLACE = 60
_HALVES = (40, 19)


def effects_lines(effects: Effects, what: str) -> list[Line]:
    """One line that names them, none if there are none.

    `what` is said of them, `{were}` standing for "was" or "were": "since then {were} not undone".
    """
    if effects.failure:
        return [note("⚠", "what is not undone outside cannot be told", effects.failure)]
    actions = [entry for entry in effects.entries if not is_read(entry)]
    reads = len(effects.entries) - len(actions)
    if not actions:
        said = what.format(were="was" if reads == 1 else "were")
        return [note("○", f"{_counted(reads, 'read')} outside {said}")] if reads else []
    named = [effect_words(entry) for entry in actions[-MOST_NAMED:]]
    earlier = len(actions) - len(named)
    listing = ", ".join([f"{earlier} earlier ones", *named] if earlier else named)
    said = what.format(were="was" if len(actions) == 1 else "were")
    head = f"{_counted(len(actions), 'external action')} {said}: {listing}"
    return [note("⚠", f"{head}; and {_counted(reads, 'read')}" if reads else head)]


def is_read(entry: Entry) -> bool:
    """Whether it is a request that only asks."""
    return entry.draft.kind is EntryKind.REQUEST and entry.draft.method.upper() in READS


def effect_words(entry: Entry) -> str:
    """One effect: what it was, how it ended, when; such as `POST http://a/b 201 (10:42:07)`."""
    ended = outcome_words(entry.outcome)
    if entry.draft.kind is EntryKind.TUNNEL and entry.outcome is not None:
        ended = f"{size(entry.outcome.sent_bytes)} sent"
    separator = "," if entry.draft.kind is EntryKind.TUNNEL else ""
    return f"{entry_words(entry)}{separator} {ended} ({clock(entry.at)})"


def entry_words(entry: Entry) -> str:
    """What an entry is of, without how it ended."""
    draft = entry.draft
    match draft.kind:
        case EntryKind.REQUEST:
            return f"{printable(draft.method)} {short_place(draft.url)}"
        case EntryKind.TUNNEL:
            return f"connection to {short_place(draft.url)}"
        case EntryKind.ONCE:
            return f"once {draft.key!r}"
        case EntryKind.POLICY:
            group = f" ({draft.key})" if draft.key else ""
            conditions = f", {printable(draft.reason)}" if draft.reason else ""
            return f"{draft.method} {short_place(draft.url)}{group}{conditions}"
        case EntryKind.SECRET:
            return f"secret {draft.key} {printable(draft.reason)}"
        case EntryKind.WAKE:
            return f"woken: {draft.reason}"


def outcome_words(outcome: Outcome | None) -> str:
    """How it ended: its status if it has one."""
    if outcome is None:
        return "under way"
    if outcome.state is OutcomeState.UNKNOWN:
        return f"{outcome.status}, outcome unknown" if outcome.status else "outcome unknown"
    if outcome.status is not None and outcome.state in (OutcomeState.DONE, OutcomeState.REFUSED):
        return str(outcome.status)
    return outcome.state.value


def short_place(url: str) -> str:
    """A URL without its query, its middle left out if it is long.

    >>> short_place("http://a.example.org/v1/orders?token=1")
    'http://a.example.org/v1/orders'
    """
    place = printable(re.split(r"[?#]", url, maxsplit=1)[0])
    if len(place) <= _LONGEST_PLACE:
        return place
    return f"{place[: _HALVES[0]]}…{place[-_HALVES[1] :]}"


def printable(text: str) -> str:
    """Text that a machine may have made up, on one line and without what steers a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def clock(at: datetime) -> str:
    """The time of day on this host."""
    return f"{at.astimezone():%H:%M:%S}"


def effect_record(entry: Entry) -> Mapping[str, Any]:
    """An entry of the ledger in a record; sizes in bytes, money in millionths."""
    draft, outcome = entry.draft, entry.outcome
    usage = outcome and outcome.usage
    return {
        "number": entry.number,
        "at": entry.at.isoformat(),
        "branch": draft.branch,
        "incarnation": draft.incarnation,
        "checkpoint": draft.checkpoint,
        "kind": draft.kind.value,
        "decision": draft.decision.value,
        "method": draft.method,
        "url": draft.url,
        "key": draft.key,
        "reason": draft.reason,
        "state": outcome and outcome.state.value,
        "status": outcome and outcome.status,
        "sent_bytes": outcome and outcome.sent_bytes,
        "received_bytes": outcome and outcome.received_bytes,
        "duration_ms": outcome and outcome.duration_ms,
        "model": usage and usage.model,
        "tokens_in": usage and usage.tokens_in,
        "tokens_out": usage and usage.tokens_out,
        "micros": usage and usage.micros,
        "note": outcome and outcome.note,
    }


def effects_record(effects: Effects) -> list[Mapping[str, Any]] | None:
    """Effects in a record; None if what they are cannot be told."""
    return None if effects.failure else [effect_record(entry) for entry in effects.entries]


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
