"""Requests that bear an Idempotency-Key: sent at most once in a session, then answered again."""

import json
import shlex
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from branchpoint_vmruntime.errors import DamagedError, UsageError
from branchpoint_vmruntime.ledger import Decision, Draft, Entry, EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.ledger.intents import (
    Intents,
    check_key,
    may_be_done,
    place,
    when_and_where,
)
from branchpoint_vmruntime.ledger.ledger import Ledger

REPLAYED_HEADER = (b"Branchpoint-Replayed", b"true")
# The other side did not let it in: whoever may by then can send it again.
_REFUSALS = (401, 403, 407, 429)
_LEAST_FAULT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """A reply as it came. `headers` are without those of the connection alone."""

    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Go:
    """Send it: its intent is written as entry `number`, and `finish` must follow."""

    number: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Give this reply; it is written as entry `number` that it was given again."""

    reply: RecordedReply
    number: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with that status and these words; it is written as entry `number`."""

    status: int
    words: str
    number: int


Admission = Go | Replay | Refuse


class ReplayDesk:
    """Where the gateway asks about such a request, and tells how it ended.

    A request may outlive the machine it came from: it is under way until `finish`.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._under_way: set[int] = set()
        self._intents = Intents(ledger, EntryKind.REQUEST, self._has_holder)

    async def begin(self, draft: Draft, *, retry: bool) -> Admission:
        """What to do about the request of `draft`, whose `key` is that of its header.

        The ledger has an entry of it afterwards, whatever the answer. Waits while another under the
        key is under way. One key stands for one method and URL up to its query; `fingerprint` is
        the body's. With `retry` one of which nobody knows is sent anew.
        """
        try:
            check_key(draft.key)
        except UsageError as error:
            return self._refuse(replace(draft, key=""), 400, str(error))
        entry = await self._intents.settled(lambda: self._newest_like(draft))
        if entry is not None and _is_another(entry.draft, draft) and entry.is_effect:
            words = f"the key {draft.key!r} was used {when_and_where(entry)} for another request"
            return self._refuse(draft, 422, words)
        if may_be_done(entry, retry=retry):
            number = self._ledger.begin(draft)
            self._under_way.add(number)
            return Go(number)
        assert entry is not None
        return self._recorded(entry, draft)

    def finish(self, number: int, outcome: Outcome, reply: RecordedReply | None) -> None:
        """Write how it ended. `reply` is whole, or None if none came or it is too large to keep.

        What counts as what: 401, 403, 407 and 429 as refused, so that the key is free again; 5xx as
        unknown; any other status as done. An outcome that is not "done" is taken as it is.
        """
        if outcome.state is OutcomeState.DONE and outcome.status is not None:
            outcome = replace(outcome, state=_state_after(outcome.status))
        is_kept = reply is not None and outcome.state is OutcomeState.DONE
        result = _to_bytes(reply) if is_kept and reply is not None else None
        self._under_way.discard(number)
        self._intents.settle(number, outcome, result=result)

    def ended(self, incarnation: str) -> None:
        """That machine is gone: of what it asked for and nobody is at, nobody knows the outcome."""
        self._intents.lose(incarnation)

    def _has_holder(self, entry: Entry) -> bool:
        return entry.number in self._under_way

    def _newest_like(self, draft: Draft) -> Entry | None:
        for entry in self._ledger.under_key(draft.session, EntryKind.REQUEST, draft.key):
            if place(entry.draft) == place(draft):
                return entry
        return None

    def _recorded(self, entry: Entry, draft: Draft) -> Admission:
        outcome = entry.outcome
        if outcome is None or outcome.state in (OutcomeState.UNKNOWN, OutcomeState.FAILED):
            is_fault = outcome and outcome.status and outcome.status >= _LEAST_FAULT
            ended = f"answered with {outcome.status}" if outcome and is_fault else "cut off"
            words = (
                f"{draft.method} under the key {draft.key!r} was begun {when_and_where(entry)} and"
                f" {ended}: nobody knows whether it took effect. {_how_to_go_on(draft.key)}"
            )
            return self._refuse(draft, 409, words)
        kept = self._ledger.result(entry.number)
        if kept is not None:
            return self._give(entry, draft, _from_bytes(kept))
        if outcome.state is OutcomeState.ACCEPTED:
            # It was said to have taken place; what was answered nobody knows.
            reply = RecordedReply(status=204, reason=b"No Content", headers=(), body=b"")
            return self._give(entry, draft, reply)
        words = (
            f"{draft.method} under the key {draft.key!r} took place {when_and_where(entry)} with"
            f" status {outcome.status}; its reply was too large to be kept"
        )
        return self._refuse(draft, 409, words)

    def _give(self, entry: Entry, draft: Draft, reply: RecordedReply) -> Replay:
        given = replace(draft, decision=Decision.REPLAYED, reason=f"entry {entry.number}")
        outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.DONE, status=reply.status)
        number = self._ledger.note(given, outcome)
        return Replay(replace(reply, headers=(*reply.headers, REPLAYED_HEADER)), number)

    def _refuse(self, draft: Draft, status: int, words: str) -> Refuse:
        refused = replace(draft, decision=Decision.REFUSED, reason=words)
        outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.REFUSED, status=status)
        return Refuse(status, words, self._ledger.note(refused, outcome))


def _how_to_go_on(key: str) -> str:
    name = shlex.quote(key)
    return (
        "To send it again, add the header `Branchpoint-Unknown: retry`"
        f" or use `%ledger --retry {name}`."
        f" If it did take place, `%ledger --accept {name}` says so."
    )


def _is_another(before: Draft, now: Draft) -> bool:
    return (before.url, before.fingerprint) != (now.url, now.fingerprint)


def _state_after(status: int) -> OutcomeState:
    if status in _REFUSALS:
        return OutcomeState.REFUSED
    return OutcomeState.UNKNOWN if status >= _LEAST_FAULT else OutcomeState.DONE


def _to_bytes(reply: RecordedReply) -> bytes:
    facts = {
        "status": reply.status,
        "reason": _text(reply.reason),
        "headers": [[_text(name), _text(value)] for name, value in reply.headers],
    }
    return json.dumps(facts).encode() + b"\n" + reply.body


def _from_bytes(kept: bytes) -> RecordedReply:
    head, _, body = kept.partition(b"\n")
    try:
        facts = json.loads(head)
        return RecordedReply(
            status=facts["status"],
            reason=b64decode(facts["reason"]),
            headers=tuple((b64decode(name), b64decode(value)) for name, value in facts["headers"]),
            body=body,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError("a recorded reply in the ledger is not whole") from error


def _text(data: bytes) -> str:
    return b64encode(data).decode()
