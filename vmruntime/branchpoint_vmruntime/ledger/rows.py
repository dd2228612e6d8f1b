"""Between the facts of the ledger and the rows they are stored as. Pure."""

from datetime import datetime
from sqlite3 import Row
from typing import Any

from branchpoint_vmruntime.ledger import (
    Decision,
    Draft,
    Entry,
    EntryKind,
    Outcome,
    OutcomeState,
    Usage,
)

_LARGEST = (1 << 63) - 1


def draft_to_row(draft: Draft, at: datetime) -> dict[str, Any]:
    """An entry's columns, without its number."""
    return {
        "at": at.isoformat(),
        "session": draft.session,
        "branch": draft.branch,
        "incarnation": draft.incarnation,
        "checkpoint": draft.checkpoint,
        "kind": draft.kind.value,
        "decision": draft.decision.value,
        "method": storable(draft.method),
        "url": storable(draft.url),
        "reason": storable(draft.reason),
        "key": storable(draft.key),
        "fingerprint": storable(draft.fingerprint),
    }


def outcome_to_row(outcome: Outcome) -> dict[str, Any]:
    """An outcome's columns, without those that say whose it is."""
    usage = outcome.usage
    return {
        "ended_at": outcome.at.isoformat(),
        "state": outcome.state.value,
        "status": outcome.status,
        "sent_bytes": outcome.sent_bytes,
        "received_bytes": outcome.received_bytes,
        "duration_ms": outcome.duration_ms,
        "model": usage and storable(usage.model),
        "tokens_in": usage and _count(usage.tokens_in),
        "tokens_out": usage and _count(usage.tokens_out),
        "micros": None if usage is None or usage.micros is None else _count(usage.micros),
        "note": storable(outcome.note),
    }


def entry_from_row(row: Row) -> Entry:
    """An entry as it is stored, joined with its newest outcome."""
    draft = Draft(
        session=row["session"],
        branch=row["branch"],
        incarnation=row["incarnation"],
        checkpoint=row["checkpoint"],
        kind=EntryKind(row["kind"]),
        decision=Decision(row["decision"]),
        method=row["method"],
        url=row["url"],
        reason=row["reason"],
        key=row["key"],
        fingerprint=row["fingerprint"],
    )
    return Entry(
        number=row["number"],
        at=datetime.fromisoformat(row["at"]),
        draft=draft,
        outcome=_outcome_from_row(row),
    )


def storable(text: str) -> str:
    r"""The text, with what is no character (half a surrogate pair) spelt out.

    >>> storable("naïve \ud800")
    'naïve \\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _outcome_from_row(row: Row) -> Outcome | None:
    if row["state"] is None:
        return None
    usage = None
    if row["model"] is not None:
        usage = Usage(
            model=row["model"],
            tokens_in=row["tokens_in"],
            tokens_out=row["tokens_out"],
            micros=row["micros"],
        )
    return Outcome(
        at=datetime.fromisoformat(row["ended_at"]),
        state=OutcomeState(row["state"]),
        status=row["status"],
        sent_bytes=row["sent_bytes"],
        received_bytes=row["received_bytes"],
        duration_ms=row["duration_ms"],
        usage=usage,
        note=row["note"],
    )


def _count(number: int) -> int:
    # Others make these numbers up; SQLite holds 64 bits.
    return max(-_LARGEST, min(number, _LARGEST))
