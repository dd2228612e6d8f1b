"""The lineage store: all that is known of every session, in one SQLite file others may read.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     with Journal.open(Path(folder) / "lineage.db") as journal:
...         journal.sessions()
[]
"""

import json
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from branchpoint_vmruntime.database import Database
from branchpoint_vmruntime.errors import NameTakenError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.loans import IS_REMOVED, Loans
from branchpoint_vmruntime.lineage.rows import (
    ReadOnce,
    annotated,
    branch_from_row,
    branch_to_row,
    checkpoint_to_row,
    operation_from_row,
    operation_to_row,
    session_from_row,
    session_to_row,
)
from branchpoint_vmruntime.lineage.schema import SCHEMA

_OF_SESSION = """
WITH RECURSIVE wanted (id) AS (
    SELECT id FROM checkpoints WHERE session = :session
    UNION SELECT origin FROM branches WHERE session = :session
    UNION SELECT head FROM branches WHERE session = :session
    UNION SELECT :start WHERE :start IS NOT NULL
    UNION SELECT value FROM json_each(:more)
    UNION SELECT checkpoints.parent FROM checkpoints JOIN wanted USING (id)
        WHERE checkpoints.parent IS NOT NULL
)
SELECT checkpoints.number FROM checkpoints JOIN wanted USING (id) ORDER BY number
"""
_OF_NUMBERS = "SELECT * FROM checkpoints WHERE number IN (SELECT value FROM json_each(:numbers))"


class Journal(Loans):
    """A connection to the store. Each method is one transaction: it happens whole or not at all."""

    SCHEMA = SCHEMA

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._once = ReadOnce()

    def session_by_key(self, key: str) -> SessionRecord | None:
        """The session that `key` finds again."""
        query = f"SELECT * FROM sessions WHERE key = :key AND NOT {IS_REMOVED}"
        rows = self._rows(query, key=key)
        return session_from_row(rows[0]) if rows else None

    def add_session(self, record: SessionRecord) -> None:
        """Put a new session on record."""
        with self._transaction():
            row = session_to_row(record)
            self._insert("sessions", row, taken=f"there is already a session {record.key!r}")

    def session(self, id: SessionId) -> SessionRecord | None:  # noqa: A002
        """The session of that id, as it is on record now; None also for one that was removed."""
        rows = self._rows(f"SELECT * FROM sessions WHERE id = :id AND NOT {IS_REMOVED}", id=id)
        return session_from_row(rows[0]) if rows else None

    def put_session(self, record: SessionRecord) -> None:
        """Put on record where a session starts from, and as what it is continued."""
        with self._transaction():
            self._database.execute(
                "UPDATE sessions SET start = :start, current = :current WHERE id = :id",
                start=record.start,
                current=record.current,
                id=record.id,
            )

    def rekey(self, keys: Mapping[SessionId, str]) -> list[SessionRecord]:
        """Have sessions be found by other keys from now on, as one step; as they are now.

        NameTakenError, and all keep theirs, if another session has one of them. Nothing else of a
        session has its key: whoever has it open goes on. Survives a power cut.
        """
        with self._database.transaction(lasting=True):
            for id, key in keys.items():  # noqa: A001
                if key.startswith("removed:"):
                    raise UsageError(f"{key!r} is no key for a session", hint="choose another")
                if self.session(id) is None:
                    raise UnknownNameError("session", id, self._session_ids())
                other = self.session_by_key(key)
                if other is not None and other.id != id:
                    raise NameTakenError(f"there is already a session {key!r}")
                self._database.execute(
                    "UPDATE sessions SET key = :key WHERE id = :id", key=key, id=id
                )
        return [found for id in keys if (found := self.session(id)) is not None]  # noqa: A001

    def add_lineage(
        self,
        record: SessionRecord,
        checkpoints: Iterable[Checkpoint],
        branch: BranchRecord,
        operations: Iterable[Operation],
        pins: Iterable[CheckpointId],
    ) -> None:
        """Put a new session on record with all that was done in it elsewhere, as one step.

        Parents come before their children. Survives a power cut.
        """
        with self._database.transaction(lasting=True):
            row = session_to_row(record)
            self._insert("sessions", row, taken=f"there is already a session {record.key!r}")
            for checkpoint in checkpoints:
                row = checkpoint_to_row(checkpoint)
                taken = f"there is already a checkpoint {checkpoint.id!r}"
                self._insert("checkpoints", row, taken=taken)
            self._insert("branches", branch_to_row(branch))
            for operation in operations:
                self._insert("operations", operation_to_row(operation))
            for id in pins:  # noqa: A001
                self._insert("pins", {"checkpoint": id})

    def pins(self) -> set[CheckpointId]:
        """The checkpoints, of all sessions, that are to be kept whatever else goes."""
        return {CheckpointId(row["checkpoint"]) for row in self._rows("SELECT * FROM pins")}

    def pin(self, id: CheckpointId, *, pinned: bool) -> None:  # noqa: A002
        """Keep a checkpoint whatever else goes, or no longer."""
        with self._transaction():
            self._require_checkpoint(id)
            if pinned:
                self._insert("pins", {"checkpoint": id}, "ON CONFLICT DO NOTHING")
            else:
                self._database.execute("DELETE FROM pins WHERE checkpoint = :id", id=id)

    def annotate(
        self,
        id: CheckpointId,  # noqa: A002
        *,
        label: str | None = None,
        note: str | None = None,
    ) -> Checkpoint:
        """Give a checkpoint another label or note, or both; what is None stays. As it is now."""
        with self._transaction():
            self._require_checkpoint(id)
            self._insert(
                "annotations",
                {"checkpoint": id, "label": label, "note": note},
                "ON CONFLICT (checkpoint) DO UPDATE SET"
                " label = coalesce(excluded.label, label), note = coalesce(excluded.note, note)",
            )
            (annotated,) = self._checkpoints("SELECT * FROM checkpoints WHERE id = :id", id=id)
        return annotated

    def sessions(self) -> list[SessionRecord]:
        """Every session, oldest first."""
        rows = self._rows(f"SELECT * FROM sessions WHERE NOT {IS_REMOVED} ORDER BY number")
        return [session_from_row(row) for row in rows]

    def add_checkpoint(self, checkpoint: Checkpoint, *, advance: BranchName | None) -> None:
        """Put a checkpoint on record and move the head of branch `advance` to it, as one step."""
        if (checkpoint.kind is CheckpointKind.BASE) != (checkpoint.parent is None):
            raise UsageError(
                f"checkpoint {checkpoint.id!r}: a base has no parent, all others have one"
            )
        with self._transaction():
            if checkpoint.parent is not None:
                self._require_checkpoint(checkpoint.parent)
            row = checkpoint_to_row(checkpoint)
            self._insert(
                "checkpoints", row, taken=f"there is already a checkpoint {checkpoint.id!r}"
            )
            if advance is not None:
                self._advance(checkpoint, advance)

    def checkpoint(self, id: CheckpointId) -> Checkpoint | None:  # noqa: A002
        """The checkpoint of that id."""
        found = self._checkpoints("SELECT * FROM checkpoints WHERE id = :id", id=id)
        return found[0] if found else None

    def base(self, key: str) -> Checkpoint | None:
        """The newest base checkpoint that can be restored under `key`."""
        found = self._checkpoints(
            "SELECT * FROM checkpoints WHERE kind = :kind AND key = :key"
            " ORDER BY number DESC LIMIT 1",
            kind=CheckpointKind.BASE.value,
            key=key,
        )
        return found[0] if found else None

    def checkpoints(
        self, session: SessionId, more: Iterable[CheckpointId] = ()
    ) -> list[Checkpoint]:
        """The session's checkpoints and all they descend from down to the bases, oldest first.

        Where its branches stand and its fresh machines start belongs to them, whoever saved that;
        and `more` as if it did.
        """
        record = self.session(session)
        start = record.start if record else None
        heads = json.dumps(list(more))
        rows = self._rows(_OF_SESSION, session=session, start=start, more=heads)
        numbers = [row["number"] for row in rows]
        # What their cells said are megabytes, and hardly any of them is new.
        if unread := self._once.unread(numbers):
            for row in self._rows(_OF_NUMBERS, numbers=json.dumps(unread)):
                self._once.checkpoint(row)
        return self._as_called_now(self._once.numbered(numbers))

    def every_checkpoint(self) -> list[Checkpoint]:
        """The checkpoints of all sessions, and all bases, oldest first."""
        return self._checkpoints("SELECT * FROM checkpoints ORDER BY number")

    def tallies(self) -> dict[SessionId, tuple[int, datetime]]:
        """How many checkpoints each session has of its own, and when the newest was taken."""
        rows = self._rows(
            "SELECT session, count(*) AS many, max(created_at) AS newest FROM checkpoints"
            " WHERE session IS NOT NULL GROUP BY session"
        )
        return {
            SessionId(row["session"]): (row["many"], datetime.fromisoformat(row["newest"]))
            for row in rows
        }

    def remove_checkpoint(self, id: CheckpointId) -> None:  # noqa: A002
        """Forget a checkpoint; refused while one descends from it or a branch stands on it."""
        with self._transaction():
            self._require_checkpoint(id)
            children = self._rows("SELECT id, label FROM checkpoints WHERE parent = :id", id=id)
            if children:
                names = ", ".join(row["label"] or row["id"] for row in children)
                raise UsageError(
                    f"checkpoint {id!r} has descendants: {names}", hint="remove those first"
                )
            standing = self._rows(
                "SELECT name FROM branches WHERE head = :id AND state != :dropped ORDER BY number",
                id=id,
                dropped=BranchState.DROPPED.value,
            )
            if standing:
                names = ", ".join(row["name"] for row in standing)
                raise UsageError(
                    f"a branch stands on checkpoint {id!r}: {names}", hint="drop the branch first"
                )
            self._require_no_start(id)
            self._database.execute("DELETE FROM checkpoints WHERE id = :id", id=id)

    def put_branch(self, record: BranchRecord) -> None:
        """Put a branch on record, or what has become of it."""
        self.put_branches([record])

    def put_branches(self, records: Iterable[BranchRecord]) -> None:
        """Put several branches on record, as one step."""
        with self._transaction():
            for record in records:
                if record.state is not BranchState.DROPPED:
                    self._require_checkpoint(record.head)
                row = branch_to_row(record)
                news = ", ".join(f"{name} = excluded.{name}" for name in row)
                # Not INSERT OR REPLACE: a new row would get a new number, another place in line.
                self._insert("branches", row, f"ON CONFLICT (session, name) DO UPDATE SET {news}")

    def rename_branches(self, session: SessionId, names: Mapping[BranchName, BranchName]) -> None:
        """Call branches otherwise from now on, as one step, and so what came of them.

        What was done keeps the old names.
        """
        with self._transaction():
            for old, new in names.items():
                for column in ("name", "parent"):
                    self._database.execute(
                        f"UPDATE branches SET {column} = :new"
                        f" WHERE session = :session AND {column} = :old",
                        new=new,
                        session=session,
                        old=old,
                    )

    def branches(self, session: SessionId) -> list[BranchRecord]:
        """The session's branches, in order of making."""
        rows = self._rows(
            "SELECT * FROM branches WHERE session = :session ORDER BY number", session=session
        )
        return [branch_from_row(row) for row in rows]

    def add_operation(self, operation: Operation) -> None:
        """Append to the list of what was done."""
        with self._transaction():
            self._insert("operations", operation_to_row(operation))

    def operations(self, session: SessionId, *, newest: int | None = None) -> list[Operation]:
        """What was done in the session, oldest first: all of it, or the newest so many."""
        rows = self._rows(
            "SELECT * FROM operations WHERE session = :session ORDER BY number DESC LIMIT :most",
            session=session,
            most=-1 if newest is None else newest,
        )
        return [operation_from_row(row) for row in reversed(rows)]

    def _advance(self, checkpoint: Checkpoint, branch: BranchName) -> None:
        moved = self._database.execute(
            "UPDATE branches SET head = :head WHERE session = :session AND name = :name",
            head=checkpoint.id,
            session=checkpoint.session,
            name=branch,
        )
        if moved != 1:
            known = self._rows(
                "SELECT name FROM branches WHERE session = :id", id=checkpoint.session
            )
            raise UnknownNameError("branch", branch, tuple(row["name"] for row in known))

    def _require_checkpoint(self, id: CheckpointId) -> None:  # noqa: A002
        if self.checkpoint(id) is None:
            known = self._rows("SELECT id FROM checkpoints ORDER BY number DESC LIMIT 10")
            raise UnknownNameError("checkpoint", id, tuple(row["id"] for row in known))

    def _checkpoints(self, query: str, **values: Any) -> list[Checkpoint]:
        rows = self._rows(query, **values)
        return self._as_called_now([self._once.checkpoint(row) for row in rows])

    def _as_called_now(self, found: list[Checkpoint]) -> list[Checkpoint]:
        said = self._annotations()
        return [annotated(it, said[it.id]) if it.id in said else it for it in found]

    def _annotations(self) -> dict[str, sqlite3.Row]:
        return {row["checkpoint"]: row for row in self._rows("SELECT * FROM annotations")}

    def _insert(self, table: str, row: dict[str, Any], rest: str = "", *, taken: str = "") -> None:
        try:
            self._database.insert(table, row, rest)
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise NameTakenError(taken) from error
            raise UnknownNameError("session", str(row["session"]), self._session_ids()) from error

    def _session_ids(self) -> tuple[str, ...]:
        return tuple(session.id for session in self.sessions())

    @contextmanager
    def _transaction(self) -> Generator[None]:
        # A power cut may cost the last ones, but never damages the file.
        with self._database.transaction(lasting=False):
            yield
