"""What is under way under a key: found, waited for, and settled when nobody will finish it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.ledger import Draft, Entry, EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger

LONGEST_KEY = 1000
# Not among the outcome's states: that somebody lets it be done again says nothing of how it ended.
_MAY_BE_RETRIED = "a retry was allowed"


class Caller(Protocol):
    """Whose machine something comes from, as `outside.facts.Who` tells it."""

    @property
    def session(self) -> str: ...
    @property
    def branch(self) -> str: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def checkpoint(self) -> Callable[[], str]: ...


class Intents:
    """The intents of one kind. `has_holder` tells whether somebody is still at one.

    One process at a time drives a session, so that all who wait for an outcome wait here.
    """

    def __init__(
        self, ledger: Ledger, kind: EntryKind, has_holder: Callable[[Entry], bool]
    ) -> None:
        self._ledger = ledger
        self._kind = kind
        self._holder = has_holder
        self._awaited: dict[int, asyncio.Event] = {}
        self._given_up: set[int] = set()

    async def settled(self, find: Callable[[], Entry | None]) -> Entry | None:
        """The entry that `find` gives, once it has an outcome; waits while somebody is at it."""
        while (entry := find()) is not None and entry.outcome is None:
            if self._has_holder(entry):
                await self._awaited.setdefault(entry.number, asyncio.Event()).wait()
            else:
                self.settle(entry.number, in_doubt("its machine is gone"))
        return entry

    def settle(self, number: int, outcome: Outcome, *, result: bytes | None = None) -> None:
        """Write how it ended, and tell those who wait for it.

        UsageError, and it is as before, if the result of a function is more than may be kept; a
        reply is left out then.
        """
        if result is not None and not self._ledger.has_room(number, len(result)):
            if self._kind is EntryKind.ONCE:
                raise UsageError("the ledger keeps no more results of this size for this session")
            result = None
        try:
            self._ledger.end(number, outcome, result=result)
            self._given_up.discard(number)
        except BaseException:
            # Whoever asks next writes it down, if it can be by then.
            self._given_up.add(number)
            raise
        finally:
            if event := self._awaited.pop(number, None):
                event.set()

    def lose(self, incarnation: str) -> None:
        """That machine is gone: of what nobody is at any more nobody knows the outcome."""
        for entry in self._ledger.unfinished(incarnation):
            if entry.draft.kind is self._kind and not self._has_holder(entry):
                self.settle(entry.number, in_doubt("its machine is gone"))

    def newest(self, session: str, key: str) -> Entry | None:
        """The newest entry under a key, with an outcome if nobody holds it any more.

        A key may be used at several places; one that is in doubt comes before the others.
        """
        last: dict[tuple[str, str], Entry] = {}
        for entry in self._ledger.under_key(session, self._kind, key):
            last.setdefault(place(entry.draft), entry)
        entries = [self._looked_after(entry) for entry in last.values()]
        doubtful = [it for it in entries if it.outcome and _is_in_doubt(it, it.outcome)]
        return next(iter((*doubtful, *entries)), None)

    def _looked_after(self, entry: Entry) -> Entry:
        if entry.outcome is not None or self._has_holder(entry):
            return entry
        self.settle(entry.number, in_doubt("its machine is gone"))
        return self._ledger.entry(entry.number) or entry

    def accept(self, session: str, key: str, result: bytes | None) -> Entry:
        """Somebody says that it took place, with that result. UsageError unless it is in doubt."""
        entry, outcome = self._in_doubt(session, key)
        # What it has sent and cost stays so.
        at = datetime.now(UTC)
        accepted = replace(outcome, at=at, state=OutcomeState.ACCEPTED, note="")
        return self._decide(entry, accepted, result)

    def allow_retry(self, session: str, key: str) -> Entry:
        """Somebody lets it be done once more. UsageError unless it is in doubt."""
        entry, outcome = self._in_doubt(session, key)
        allowed = replace(outcome, at=datetime.now(UTC), note=_MAY_BE_RETRIED)
        return self._decide(entry, allowed, None)

    def _decide(self, entry: Entry, outcome: Outcome, result: bytes | None) -> Entry:
        self.settle(entry.number, outcome, result=result)
        return replace(entry, outcome=outcome)

    def _in_doubt(self, session: str, key: str) -> tuple[Entry, Outcome]:
        entry = self.newest(session, key)
        if entry is None:
            raise UnknownNameError("key", key, (), hint="see %ledger for the keys there are")
        if entry.outcome is None:
            raise UsageError(
                f"{key!r} is under way on branch {entry.draft.branch}",
                hint="wait for it, or end it: roll that branch back",
            )
        if not _is_in_doubt(entry, entry.outcome):
            raise UsageError(
                f"the outcome of {key!r} is known: {entry.outcome.state.value}",
                hint="for something new, take another key",
            )
        return entry, entry.outcome

    def _has_holder(self, entry: Entry) -> bool:
        return entry.number not in self._given_up and self._holder(entry)


def in_doubt(why: str) -> Outcome:
    """The outcome of what was cut off."""
    return Outcome(at=datetime.now(UTC), state=OutcomeState.UNKNOWN, note=why)


def may_be_done(entry: Entry | None, *, retry: bool) -> bool:
    """Whether a key is free: nothing took place under it, or what is in doubt may be retried."""
    if entry is None or not entry.is_effect:
        return True
    outcome = entry.outcome
    if outcome is None or not _is_in_doubt(entry, outcome):
        return False
    return retry or outcome.note == _MAY_BE_RETRIED


def _is_in_doubt(entry: Entry, outcome: Outcome) -> bool:
    # A function that raised may have had an effect before.
    return entry.is_effect and outcome.state in (OutcomeState.UNKNOWN, OutcomeState.FAILED)


def check_key(key: str) -> None:
    """UsageError for a key that is none."""
    if not key or len(key) > LONGEST_KEY:
        raise UsageError(f"a key is a text of 1 to {LONGEST_KEY} characters")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the key {key!r} holds half a character") from None


def place(draft: Draft) -> tuple[str, str]:
    """What a key stands for together with: the method and the URL up to its query."""
    return draft.method, draft.url.partition("?")[0]


def when_and_where(entry: Entry) -> str:
    """When and on which branch it was begun, for a sentence."""
    return f"on branch {entry.draft.branch} at {entry.at:%Y-%m-%d %H:%M:%S} UTC"
