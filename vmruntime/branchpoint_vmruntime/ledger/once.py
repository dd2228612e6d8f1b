"""Functions that take effect at most once in a session, whatever is rolled back or forked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.ledger import (
    Decision,
    Draft,
    Entry,
    EntryKind,
    Outcome,
    OutcomeState,
)
from branchpoint_vmruntime.ledger.intents import (
    Caller,
    Intents,
    check_key,
    in_doubt,
    may_be_done,
    when_and_where,
)
from branchpoint_vmruntime.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a caller is to do about its key.

    "run": its intent `number` is written, it runs the function and tells how that ended. "done",
    "failed": that has been, with that payload. "unknown": in `words` what is known of it.
    """

    state: Literal["run", "done", "failed", "unknown"]
    number: int
    payload: bytes | None = None
    words: str = ""


class OnceDesk:
    """Where machines ask before they run such a function, and tell how it ended.

    `alive` tells whether the machine of an incarnation still is.
    """

    def __init__(self, ledger: Ledger, alive: Callable[[str], bool]) -> None:
        self._ledger = ledger
        self._alive = alive
        self._intents = Intents(ledger, EntryKind.ONCE, self._has_holder)
        self._intents_of = {
            EntryKind.ONCE: self._intents,
            EntryKind.REQUEST: Intents(ledger, EntryKind.REQUEST, self._has_holder),
        }

    async def begin(self, who: Caller, key: str, *, retry: bool) -> Begun:
        """Write the intent, unless there is an outcome. Waits while another is under way.

        With `retry` one that failed, or of which nobody knows, is begun anew.
        """
        check_key(key)
        newest = partial(self._ledger.open_under_key, who.session, EntryKind.ONCE, key)
        entry = await self._intents.settled(newest)
        if may_be_done(entry, retry=retry):
            return Begun(state="run", number=self._ledger.begin(_draft(who, key)))
        assert entry is not None
        begun = self._recorded(entry)
        if begun.state in ("done", "failed"):
            outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.DONE)
            reason = f"entry {entry.number}"
            given = replace(_draft(who, key), decision=Decision.REPLAYED, reason=reason)
            self._ledger.note(given, outcome)
        return begun

    def end(self, who: Caller, number: int, *, ok: bool, payload: bytes) -> Begun:
        """Write that the function returned, or raised, and what; how it now is on record.

        Only the machine that began it may, and only once: from any other nothing is taken.
        """
        entry = self._own(who, number)
        if entry.outcome is None and entry.draft.incarnation == who.incarnation:
            at = datetime.now(UTC)
            outcome = Outcome(
                at=at,
                state=OutcomeState.DONE if ok else OutcomeState.FAILED,
                duration_ms=(at - entry.at).total_seconds() * 1e3,
            )
            self._intents.settle(number, outcome, result=payload)
            return Begun(state="done" if ok else "failed", number=number)
        return self._recorded(self._intents.newest(who.session, entry.draft.key) or entry)

    def give_up(self, who: Caller, number: int) -> None:
        """Whoever ran it is gone without a word; nothing happens if it had told how it ended."""
        entry = self._own(who, number)
        if entry.outcome is None and entry.draft.incarnation == who.incarnation:
            self._intents.settle(number, in_doubt("its process is gone"))

    def withdraw(self, who: Caller, number: int) -> None:
        """Nobody was there to run it: nothing took place."""
        entry = self._own(who, number)
        if entry.outcome is None and entry.draft.incarnation == who.incarnation:
            note = "its caller was gone before it ran"
            outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.REFUSED, note=note)
            self._intents.settle(number, outcome)

    def accept(
        self, session: str, key: str, payload: bytes | None, *, kind: EntryKind = EntryKind.ONCE
    ) -> Entry:
        """Take it from somebody that it took place, with that result; None gives None.

        UsageError unless it failed or nobody knows of it. `kind` REQUEST is for Idempotency-Keys.
        """
        return self._intents_of[kind].accept(session, key, payload)

    def allow_retry(self, session: str, key: str, *, kind: EntryKind = EntryKind.ONCE) -> Entry:
        """Let it be done once more, by whoever asks next. UsageError as for `accept`."""
        return self._intents_of[kind].allow_retry(session, key)

    async def ended(self, incarnation: str) -> None:
        """That machine is gone: of what it had under way nobody knows the outcome."""
        self._intents.lose(incarnation)

    def _has_holder(self, entry: Entry) -> bool:
        return self._alive(entry.draft.incarnation)

    def _own(self, who: Caller, number: int) -> Entry:
        entry = self._ledger.entry(number)
        if (
            entry is None
            or entry.draft.session != who.session
            or entry.draft.kind is not EntryKind.ONCE
            or entry.draft.decision is not Decision.ALLOWED
        ):
            raise UsageError(f"nothing was begun as number {number}")
        return entry

    def _recorded(self, entry: Entry) -> Begun:
        number, key = entry.number, entry.draft.key
        match entry.outcome and entry.outcome.state:
            case OutcomeState.DONE | OutcomeState.ACCEPTED:
                return Begun(state="done", number=number, payload=self._ledger.result(number))
            case OutcomeState.FAILED:
                return Begun(state="failed", number=number, payload=self._ledger.result(number))
            case _:
                words = (
                    f"{key!r} was begun {when_and_where(entry)} and cut off:"
                    " nobody knows whether it took effect"
                )
                return Begun(state="unknown", number=number, words=words)


def _draft(who: Caller, key: str) -> Draft:
    return Draft(
        session=who.session,
        branch=who.branch,
        incarnation=who.incarnation,
        checkpoint=who.checkpoint(),
        kind=EntryKind.ONCE,
        decision=Decision.ALLOWED,
        key=key,
    )
