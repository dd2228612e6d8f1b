"""The lineage store: all that is known of every session, in one SQLite file others may read.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with Journal.open(Path(folder) / "lineage.db") as journal:
...         journal.sessions()
[]
"""

import sqlite3
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    IncompatibleError,
    NameTakenError,
    SessionBusyError,
    StorageError,
    UnknownNameError,
    UsageError,
)
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
)
from branchpoint_vmruntime.lineage.schema import MIGRATIONS, TABLES, VERSION

_BUSY_TIMEOUT_S = 10.0

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

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open for reading and writing; the file is made if it is not there."""
        with _in_words(path):
            path.touch(mode=0o600)
            journal = cls(_connect(path.absolute().as_uri()), path)
            try:
                journal._prepare()
            except BaseException:
                journal.close()
                raise
        return journal

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading only; UnknownNameError if there is no store yet."""
        if not path.exists():
            raise UnknownNameError("lineage store", str(path), (), hint="start a session first")
        with _in_words(path):
            journal = cls(_connect(f"{path.absolute().as_uri()}?mode=ro"), path)
            try:
                journal._check_version((*MIGRATIONS, VERSION))
            except BaseException:
                journal.close()
                raise
        return journal

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._connection.close()

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
        row = {"id": record.id, "key": record.key, "created_at": record.created_at.isoformat()}
        with self._transaction():
            self._insert("sessions", row, taken=f"there is already a session {record.key!r}")

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
            self._connection.execute("DELETE FROM checkpoints WHERE id = ?", (id,))

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
                self._connection.execute(
                    "UPDATE branches SET name = ? WHERE session = ? AND name = ?",
                    (new, session, old),
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

    def _prepare(self) -> None:
        self._switch_to_wal()
        # A power cut may cost the last transactions but never damages the file.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            found = self._pragma("user_version")
            if found in (0, *MIGRATIONS):
                steps = [MIGRATIONS[version] for version in range(found, VERSION)] if found else []
                for statement in _statements("\n".join(steps) if found else TABLES):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        self._check_version((VERSION,))

    def _switch_to_wal(self) -> None:
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                # Two that switch a new file at once are "locked" with no busy wait (SQLite 3.40).
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _check_version(self, known: Collection[int]) -> None:
        found = self._pragma("user_version")
        if found not in known:
            raise IncompatibleError(
                f"{self._path} has schema version {found}; this branchpoint reads {VERSION}",
                hint="use the branchpoint that wrote it, or set BRANCHPOINT_HOME to another folder",
            )

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    def _advance(self, checkpoint: Checkpoint, branch: BranchName) -> None:
        moved = self._connection.execute(
            "UPDATE branches SET head = ? WHERE session = ? AND name = ?",
            (checkpoint.id, checkpoint.session, branch),
        )
        if moved.rowcount != 1:
            known = self._rows(
                "SELECT name FROM branches WHERE session = :id", id=checkpoint.session
            )
            raise UnknownNameError("branch", branch, tuple(row["name"] for row in known))

    def _require_checkpoint(self, id: CheckpointId) -> None:  # noqa: A002
        if self.checkpoint(id) is None:
            known = self._rows("SELECT id FROM checkpoints ORDER BY number DESC LIMIT 10")
            raise UnknownNameError("checkpoint", id, tuple(row["id"] for row in known))

    def _rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        with _in_words(self._path):
            return self._connection.execute(query, values).fetchall()

    def _insert(self, table: str, row: dict[str, Any], rest: str = "", *, taken: str = "") -> None:
        columns, places = ", ".join(row), ", ".join(f":{name}" for name in row)
        try:
            self._connection.execute(
                f"INSERT INTO {table} ({columns}) VALUES ({places}) {rest}", row
            )
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise NameTakenError(taken) from error
            raise UnknownNameError("session", str(row["session"]), self._session_ids()) from error

    def _session_ids(self) -> tuple[str, ...]:
        return tuple(session.id for session in self.sessions())

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with _in_words(self._path):
            # IMMEDIATE: what reads and then writes must not find the write lock taken midway.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back by itself after some errors, such as a full disk.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _statements(script: str) -> Generator[str]:
    """A script's statements one by one: `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def _in_words(path: Path) -> Generator[None]:
    """Turn what SQLite and the file system report into an error that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _translated(error, path) from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be used: {error}", hint="check the disk and its permissions"
        ) from error


def _translated(error: sqlite3.DatabaseError, path: Path) -> BranchpointError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return SessionBusyError(
            f"{path} was locked by another process for {_BUSY_TIMEOUT_S:g} s", hint="try again"
        )
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return DamagedError(
            f"{path} is not a whole lineage store: {error}", hint="move it away and start anew"
        )
    return StorageError(
        f"{path} cannot be used: {error}", hint="free space on the disk or check its permissions"
    )
