"""The lineage store: all that is known of every session, in one SQLite file others may read.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with Journal.open(Path(folder) / "lineage.db") as journal:
...         journal.sessions()
[]
"""

import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
from branchpoint_vmruntime.lineage.rows import (
    branch_from_row,
    branch_to_row,
    checkpoint_from_row,
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
    UNION SELECT checkpoints.parent FROM checkpoints JOIN wanted USING (id)
        WHERE checkpoints.parent IS NOT NULL
)
SELECT checkpoints.* FROM checkpoints JOIN wanted USING (id) ORDER BY number
"""


class Journal:
    """A connection to the store. Each method is one transaction: it happens whole or not at all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open for reading and writing; the file is made if it is not there."""
        return cls(Database(path, SCHEMA, read_only=False))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading only; UnknownNameError if there is no store yet."""
        if not path.exists():
            raise UnknownNameError("lineage store", str(path), (), hint="start a session first")
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

    def session_by_key(self, key: str) -> SessionRecord | None:
        """The session that `key` finds again."""
        rows = self._rows("SELECT * FROM sessions WHERE key = :key", key=key)
        return session_from_row(rows[0]) if rows else None

    def add_session(self, record: SessionRecord) -> None:
        """Put a new session on record."""
        with self._transaction():
            row = session_to_row(record)
            self._insert("sessions", row, taken=f"there is already a session {record.key!r}")

    def session(self, id: SessionId) -> SessionRecord | None:  # noqa: A002
        """The session of that id, as it is on record now."""
        rows = self._rows("SELECT * FROM sessions WHERE id = :id", id=id)
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

    def remove_session(self, id: SessionId) -> list[Checkpoint]:  # noqa: A002
        """Forget a session, its branches and what was done; the checkpoints that went with it."""
        with self._transaction():
            rows = self._rows(
                "SELECT * FROM checkpoints WHERE session = :id ORDER BY number DESC", id=id
            )
            for table in ("operations", "branches"):
                self._database.execute(f"DELETE FROM {table} WHERE session = :id", id=id)
            for row in rows:
                self._database.execute("DELETE FROM checkpoints WHERE id = :id", id=row["id"])
            self._database.execute("DELETE FROM sessions WHERE id = :id", id=id)
        return [checkpoint_from_row(row) for row in rows]

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

    def sessions(self) -> list[SessionRecord]:
        """Every session, oldest first."""
        return [
            session_from_row(row) for row in self._rows("SELECT * FROM sessions ORDER BY number")
        ]

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
        rows = self._rows("SELECT * FROM checkpoints WHERE id = :id", id=id)
        return checkpoint_from_row(rows[0]) if rows else None

    def base(self, key: str) -> Checkpoint | None:
        """The newest base checkpoint that can be restored under `key`."""
        rows = self._rows(
            "SELECT * FROM checkpoints WHERE kind = :kind AND key = :key"
            " ORDER BY number DESC LIMIT 1",
            kind=CheckpointKind.BASE.value,
            key=key,
        )
        return checkpoint_from_row(rows[0]) if rows else None

    def checkpoints(self, session: SessionId) -> list[Checkpoint]:
        """The session's checkpoints and all they descend from down to the bases, oldest first."""
        return [checkpoint_from_row(row) for row in self._rows(_OF_SESSION, session=session)]

    def every_checkpoint(self) -> list[Checkpoint]:
        """The checkpoints of all sessions, and all bases, oldest first."""
        return [
            checkpoint_from_row(row)
            for row in self._rows("SELECT * FROM checkpoints ORDER BY number")
        ]

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
        """Call branches otherwise from now on, as one step; what was done keeps the old names."""
        with self._transaction():
            for old, new in names.items():
                self._database.execute(
                    "UPDATE branches SET name = :new WHERE session = :session AND name = :old",
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

    def operations(self, session: SessionId) -> list[Operation]:
        """What was done in the session, oldest first."""
        rows = self._rows(
            "SELECT * FROM operations WHERE session = :session ORDER BY number", session=session
        )
        return [operation_from_row(row) for row in rows]

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

    def _rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return self._database.rows(query, **values)

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
