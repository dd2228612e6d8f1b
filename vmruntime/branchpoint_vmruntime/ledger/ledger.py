"""The ledger's book: one SQLite file for all sessions of a home, which is only ever added to.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with Ledger.open(Path(folder) / "ledger.db") as ledger:
...         ledger.position()
0
"""

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from branchpoint_vmruntime.database import Database
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.ledger import Decision, Draft, Entry, EntryKind, Outcome, SpentSoFar
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


class Ledger:
    """A connection to the book, for one thread. StorageError where the disk fails.

    Other processes may write to the same file at the same time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept_bytes: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open for reading and writing; the file is made if it is not there."""
        return cls(Database(path, SCHEMA, read_only=False))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading only; UnknownNameError if there is no ledger yet."""
        if not path.exists():
            raise UnknownNameError("ledger", str(path), (), hint="start a session first")
        return cls(Database(path, SCHEMA, read_only=True))

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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
        """What was let through under that key, whatever has become of it, newest first."""
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

    def keep_result(self, number: int, result: bytes) -> None:
        """Keep what came of an entry; what is kept later counts more."""
        with self._database.transaction(lasting=False):
            self._database.insert("results", {"entry": number, "content": result})

    def result(self, number: int) -> bytes | None:
        """What was kept of that entry."""
        rows = self._database.rows(
            "SELECT content FROM results WHERE entry = :number ORDER BY number DESC LIMIT 1",
            number=number,
        )
        return rows[0]["content"] if rows else None


def _now() -> datetime:
    return datetime.now(UTC)
