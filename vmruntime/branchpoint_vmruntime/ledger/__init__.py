"""The ledger: an append-only record of what machines did, and asked to do, outside.

An entry is written before what it tells of is begun, its outcome once that is known. Numbers grow
with time over all sessions of a home.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class EntryKind(StrEnum):
    """What an entry tells of."""

    WAKE = "wake"
    """A machine woke: `key` is the checkpoint it woke from, `reason` why."""
    REQUEST = "request"
    """An HTTP request that was seen whole."""
    TUNNEL = "tunnel"
    """A connection passed on unread."""
    ONCE = "once"
    """A function run by `branchpoint.once`: `key` names it."""
    POLICY = "policy"
    """What may leave was changed."""
    SECRET = "secret"
    """A secret was bound to a host, or is no more."""


class Decision(StrEnum):
    """What was done about it."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    REPLAYED = "replayed"
    """The recorded outcome of an earlier one was given instead."""


class OutcomeState(StrEnum):
    """How it ended."""

    DONE = "done"
    """It took place; `status` and the recorded result say how."""
    REFUSED = "refused"
    """The other side refused it, so that nothing took place."""
    FAILED = "failed"
    """It did not reach the other side, or the function raised."""
    UNKNOWN = "unknown"
    """It was under way and cut off: it may have taken place."""
    ACCEPTED = "accepted"
    """A person said of an unknown one that it took place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a model's reply counted.

    `micros` is its price in millionths of the currency; None if it has none.
    """

    model: str
    tokens_in: int
    tokens_out: int
    micros: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an effect ended."""

    at: datetime
    state: OutcomeState
    status: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    duration_ms: float = 0.0
    usage: Usage | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry about to be written. `fingerprint` tells one request under a key from another."""

    session: str
    branch: str
    incarnation: str
    checkpoint: str
    kind: EntryKind
    decision: Decision
    method: str = ""
    url: str = ""
    reason: str = ""
    key: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry as written, and its newest outcome."""

    number: int
    at: datetime
    draft: Draft
    outcome: Outcome | None = None

    @property
    def is_effect(self) -> bool:
        """Whether it may have changed something outside."""
        if self.draft.decision is not Decision.ALLOWED:
            return False
        state = self.outcome and self.outcome.state
        match self.draft.kind:
            case EntryKind.ONCE:
                # A function that raised may have done something before.
                return state is not OutcomeState.REFUSED
            case EntryKind.REQUEST | EntryKind.TUNNEL:
                return state not in (OutcomeState.REFUSED, OutcomeState.FAILED)
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentSoFar:
    """What a session has had from outside so far. Money in millionths of what the prices are in."""

    requests: int = 0
    refused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int = 0
