"""The ledger's book: one SQLite file for all sessions of a home, which is only ever added to.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     with Ledger.open(Path(folder) / "ledger.db") as ledger:
...         ledger.position()
0
"""

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from datetime import UTC, datetime

from branchpoint_vmruntime.database import Database, Records
from branchpoint_vmruntime.ledger import (
    Decision,
    Draft,
    Entry,
    EntryKind,
    Outcome,
    OutcomeState,
    SpentSoFar,
)
from branchpoint_vmruntime.ledger.rows import (
    draft_to_row,
    entry_from_row,
    outcome_to_row,
    storable,
)
from branchpoint_vmruntime.ledger.schema import SCHEMA

# Of a session. Its machines choose what they are, and nothing of the ledger is ever removed.
MOST_RESULTS_BYTES = 2 << 30
_FEW_BYTES = 4 << 10

_ENTRIES = """
SELECT entries.*, ended_at, state, status, sent_bytes, received_bytes, duration_ms, model,
    tokens_in, tokens_out, micros, note
FROM entries LEFT JOIN outcomes ON outcomes.number =
    (SELECT max(number) FROM outcomes WHERE entry = entries.number)
"""


class Ledger(Records):
    """A connection to the book, for one thread. StorageError where the disk fails.

    Other processes may write to the same file at the same time.
    """

    SCHEMA = SCHEMA

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._kept_bytes: dict[str, int] = {}
        self._kin: dict[str, Callable[[], Collection[str]]] = {}

    def position(self) -> int:
        """The newest entry's number; 0 if there is none."""
        return self._database.rows("SELECT coalesce(max(number), 0) FROM entries")[0][0]

    def begin(self, draft: Draft) -> int:
        """Write that something is about to be done; the entry's number.

        Once this returns the entry outlives this process, and a power cut.
        """
        with self._database.transaction(lasting=True):
            return self._database.insert("entries", draft_to_row(draft, _now()))

    def end(self, number: int, outcome: Outcome, *, result: bytes | None = None) -> None:
        """Write how that ended, and what came of it, as one step. A later outcome counts more."""
        with self._database.transaction(lasting=False):
            if result is not None:
                self._database.insert("results", {"entry": number, "content": result})
            self._database.insert("outcomes", {"entry": number} | outcome_to_row(outcome))

    def note(self, draft: Draft, outcome: Outcome | None = None) -> int:
        """Write of something that needs no intent, and how it ended, as one step; its number."""
        with self._database.transaction(lasting=False):
            number = self._database.insert("entries", draft_to_row(draft, _now()))
            if outcome is not None:
                self._database.insert("outcomes", {"entry": number} | outcome_to_row(outcome))
            return number

    def join(self, session: str, kin: Callable[[], Collection[str]]) -> None:
        """From now on a key of that session is taken if one of `kin` has used it.

        As where another notebook continues a branch: what is done once is, in both.
        """
        self._kin[session] = kin

    def entries(self, session: str, *, since: int = 0, branch: str | None = None) -> list[Entry]:
        """The session's entries after number `since`, oldest first; of one branch, if named."""
        rows = self._database.rows(
            f"{_ENTRIES} WHERE session = :session AND entries.number > :since"
            " AND (:branch IS NULL OR branch = :branch) ORDER BY entries.number",
            session=session,
            since=since,
            branch=branch,
        )
        return [entry_from_row(row) for row in rows]

    def spent(self) -> dict[str, SpentSoFar]:
        """What each session has had from outside, summed over all its branches."""
        rows = self._database.rows(
            "SELECT session, sum(decision = :allowed) AS requests,"
            " sum(decision = :refused) AS refused, total(tokens_in) AS tokens_in,"
            f" total(tokens_out) AS tokens_out, total(micros) AS micros FROM ({_ENTRIES})"
            " WHERE kind IN (:request, :tunnel) GROUP BY session",
            allowed=Decision.ALLOWED.value,
            refused=Decision.REFUSED.value,
            request=EntryKind.REQUEST.value,
            tunnel=EntryKind.TUNNEL.value,
        )
        names = [field.name for field in fields(SpentSoFar)]
        return {row["session"]: SpentSoFar(**{it: int(row[it]) for it in names}) for row in rows}

    def entry(self, number: int) -> Entry | None:
        """The entry of that number."""
        rows = self._database.rows(f"{_ENTRIES} WHERE entries.number = :number", number=number)
        return entry_from_row(rows[0]) if rows else None

    def under_key(self, session: str, kind: EntryKind, key: str) -> list[Entry]:
        """What was let through under that key, whatever has become of it, newest first.

        Also by the sessions it was joined to. What one of them has not finished nobody here can
        wait for: its outcome is unknown.
        """
        others = self._kin[session]() if session in self._kin else ()
        theirs = [it for other in others for it in self._under_key(other, kind, key)]
        found = [*self._under_key(session, kind, key), *map(_not_waited_for, theirs)]
        return sorted(found, key=lambda entry: entry.number, reverse=True)

    def _under_key(self, session: str, kind: EntryKind, key: str) -> list[Entry]:
        rows = self._database.rows(
            f"{_ENTRIES} WHERE session = :session AND kind = :kind AND key = :key AND key != ''"
            " AND decision = :allowed ORDER BY entries.number DESC",
            session=session,
            kind=kind.value,
            key=storable(key),
            allowed=Decision.ALLOWED.value,
        )
        return [entry_from_row(row) for row in rows]

    def open_under_key(self, session: str, kind: EntryKind, key: str) -> Entry | None:
        """The newest entry that was let through under that key, whatever has become of it."""
        return next(iter(self.under_key(session, kind, key)), None)

    def unfinished(self, incarnation: str) -> list[Entry]:
        """What that machine began and that has no outcome yet, oldest first."""
        rows = self._database.rows(
            f"{_ENTRIES} WHERE incarnation = :incarnation"
            " AND decision = :allowed AND kind IN (:request, :tunnel, :once) AND state IS NULL"
            " ORDER BY entries.number",
            incarnation=incarnation,
            allowed=Decision.ALLOWED.value,
            request=EntryKind.REQUEST.value,
            tunnel=EntryKind.TUNNEL.value,
            once=EntryKind.ONCE.value,
        )
        return [entry_from_row(row) for row in rows]

    def has_room(self, number: int, count: int) -> bool:
        """Whether so many bytes of results may be kept of an entry; then they count.

        Few always may: that a result was not kept is one as well.
        """
        entry = self.entry(number)
        if count <= _FEW_BYTES or entry is None:
            return True
        session = entry.draft.session
        if session not in self._kept_bytes:
            rows = self._database.rows(
                "SELECT coalesce(sum(length(content)), 0) FROM results WHERE entry IN"
                " (SELECT number FROM entries WHERE session = :session)",
                session=session,
            )
            self._kept_bytes[session] = rows[0][0]
        if self._kept_bytes[session] + count > MOST_RESULTS_BYTES:
            return False
        self._kept_bytes[session] += count
        return True

    def result(self, number: int) -> bytes | None:
        """What was kept of that entry."""
        rows = self._database.rows(
            "SELECT content FROM results WHERE entry = :number ORDER BY number DESC LIMIT 1",
            number=number,
        )
        return rows[0]["content"] if rows else None


def _now() -> datetime:
    return datetime.now(UTC)


def _not_waited_for(entry: Entry) -> Entry:
    if entry.outcome is not None:
        return entry
    note = "it was begun in another notebook"
    return replace(entry, outcome=Outcome(at=entry.at, state=OutcomeState.UNKNOWN, note=note))
