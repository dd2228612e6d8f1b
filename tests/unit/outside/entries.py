"""Entries of a ledger that lives in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from branchpoint_vmruntime.ledger import (
    Decision,
    Draft,
    Entry,
    EntryKind,
    Outcome,
    OutcomeState,
    Usage,
)

SESSION = "session"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ASKING = "https://api.example.org/v1/chat/completions"


@dataclass
class FakeLedger:
    """Entries that are added, and changed, at will; it counts what was read."""

    written: list[Entry] = field(default_factory=list[Entry])
    read: int = 0

    def entries(
        self, session: str, *, since: int = 0, branch: str | None = None
    ) -> Sequence[Entry]:
        found = [
            entry
            for entry in self.written
            if entry.draft.session == session
            and entry.number > since
            and branch in (None, entry.draft.branch)
        ]
        self.read += len(found)
        return found

    def end(self, number: int, outcome: Outcome) -> None:
        at = next(n for n, entry in enumerate(self.written) if entry.number == number)
        self.written[at] = replace(self.written[at], outcome=outcome)

    def add(
        self,
        outcome: Outcome | None = None,
        *,
        branch: str = "main",
        kind: EntryKind = EntryKind.REQUEST,
        decision: Decision = Decision.ALLOWED,
        url: str = ASKING,
        session: str = SESSION,
    ) -> int:
        draft = Draft(
            session=session,
            branch=branch,
            incarnation="one",
            checkpoint="base",
            kind=kind,
            decision=decision,
            method="POST",
            url=url,
        )
        number = len(self.written) + 1
        self.written.append(Entry(number=number, at=NOON, draft=draft, outcome=outcome))
        return number


def ended(
    usage: Usage | None = None,
    *,
    state: OutcomeState = OutcomeState.DONE,
    status: int | None = 200,
    sent: int = 0,
    received: int = 0,
) -> Outcome:
    """An outcome."""
    return Outcome(
        at=NOON,
        state=state,
        status=status,
        sent_bytes=sent,
        received_bytes=received,
        usage=usage,
    )


def used(tokens_in: int, tokens_out: int = 0, micros: int | None = None) -> Outcome:
    """The outcome of a model call."""
    return ended(Usage(model="m", tokens_in=tokens_in, tokens_out=tokens_out, micros=micros))
