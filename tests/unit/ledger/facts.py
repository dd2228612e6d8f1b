"""Entries and outcomes as the tests of the ledger need them."""

from datetime import UTC, datetime

from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def a_draft(
    key: str = "",
    *,
    kind: EntryKind = EntryKind.ONCE,
    session: str = "s-1",
    branch: str = "main",
    incarnation: str = "inc-1",
    decision: Decision = Decision.ALLOWED,
    fingerprint: str = "",
) -> Draft:
    """What a machine is about to do."""
    return Draft(
        session=session,
        branch=branch,
        incarnation=incarnation,
        checkpoint="aaaa",
        kind=kind,
        decision=decision,
        key=key,
        fingerprint=fingerprint,
    )


def an_outcome(state: OutcomeState = OutcomeState.DONE) -> Outcome:
    """How it ended."""
    return Outcome(at=NOON, state=state)
