"""An SQLite file that several processes may use: opened, brought up to date, failing in words."""

import os
import sqlite3
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    IncompatibleError,
    StorageError,
    UnknownNameError,
)

_BUSY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a file holds, `name` in words. `migrations` are by the version they lead away from."""

    name: str
    version: int
    tables: str
    migrations: Mapping[int, str] = field(default_factory=dict[int, str])


class Database:
    """A connection. What one transaction does happens whole or not at all.

    Read only, a file of an older version is taken as well. StorageError, DamagedError, and
    IncompatibleError for a file of another version.
    """

    def __init__(self, path: Path, schema: Schema, *, read_only: bool) -> None:
        self._path = path
        self._schema = schema
        with self._in_words():
            if not read_only:
                path.touch(mode=0o600)
            uri = uri_to_read(path) if read_only else path.absolute().as_uri()
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
            )
            try:
                self._connection.row_factory = sqlite3.Row
                self._connection.execute("PRAGMA foreign_keys = ON")
                if read_only:
                    self._check_version((*schema.migrations, schema.version))
                else:
                    self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._connection.close()

    def detach(self) -> None:
        """Go on with a copy in memory, as it is now: nothing of what follows reaches the file."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with self._in_words():
                self._connection.backup(copy)
                copy.row_factory = sqlite3.Row
                copy.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            copy.close()
            raise
        self._connection.close()
        self._connection = copy

    def carry_copy_over(self) -> None:
        """Go on with a copy that is brought up to date, if the file is of an older version.

        The copy is to be read alone, as the file was.
        """
        with self._in_words():
            if self._pragma("user_version") == self._schema.version:
                return
        self.detach()
        with self.transaction(lasting=False):
            self._carry_over()
        with self._in_words():
            self._connection.execute("PRAGMA query_only = ON")

    def rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        """What a query finds."""
        with self._in_words():
            return self._connection.execute(query, values).fetchall()

    def execute(self, statement: str, **values: Any) -> int:
        """Do something, within a transaction; how many rows it was done to."""
        return self._connection.execute(statement, values).rowcount

    def insert(self, table: str, row: dict[str, Any], rest: str = "") -> int:
        """Add a row, within a transaction; its number. `rest` is what follows in the statement."""
        columns, places = ", ".join(row), ", ".join(f":{name}" for name in row)
        added = self._connection.execute(
            f"INSERT INTO {table} ({columns}) VALUES ({places}) {rest}", row
        )
        assert added.lastrowid is not None
        return added.lastrowid

    @contextmanager
    def transaction(self, *, lasting: bool) -> Generator[None]:
        """Until the end of the `with`. All of it survives the death of this process.

        What is `lasting` survives a power cut as well, with all that was written before it.
        """
        with self._in_words():
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
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

    def _prepare(self) -> None:
        self._switch_to_wal()
        with self.transaction(lasting=True):
            self._carry_over()
        self._check_version((self._schema.version,))

    def _carry_over(self) -> None:
        """Make the tables, or of those of an older version what they are now; in a transaction."""
        schema, found = self._schema, self._pragma("user_version")
        if found in (0, *schema.migrations):
            steps = [schema.migrations[it] for it in range(found, schema.version)] if found else []
            for statement in _statements("\n".join(steps) if found else schema.tables):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {schema.version}")

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
                f"{self._path} has schema version {found}; "
                f"this branchpoint reads {self._schema.version}",
                hint="use the branchpoint that wrote it, or set BRANCHPOINT_HOME to another folder",
            )

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    @contextmanager
    def _in_words(self) -> Generator[None]:
        """Turn what SQLite and the file system report into an error that says what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._translated(error) from error
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be used: {error.strerror or error}",
                hint="check the disk and its permissions",
            ) from error

    def _translated(self, error: sqlite3.DatabaseError) -> BranchpointError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return StorageError(
                f"{self._path} was locked by another process for {_BUSY_TIMEOUT_S:g} s",
                hint="try again",
            )
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return DamagedError(
                f"{self._path} is not a whole {self._schema.name}: {error}",
                hint="move it away and start anew",
            )
        return StorageError(
            f"{self._path} cannot be used: {error}",
            hint="free space on the disk or check its permissions",
        )


class Records:
    """What such a file holds, of the SCHEMA; a `with` lets go of it."""

    SCHEMA: ClassVar[Schema]

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open for reading and writing; the file is made if it is not there."""
        return cls(Database(path, cls.SCHEMA, read_only=False))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading only; UnknownNameError if there is no such file yet.

        A file of an older version stays as it is, and what is read is a copy, as of now.
        """
        if not path.exists():
            raise UnknownNameError(cls.SCHEMA.name, str(path), (), hint="start a session first")
        database = Database(path, cls.SCHEMA, read_only=True)
        try:
            database.carry_copy_over()
        except BaseException:
            database.close()
            raise
        return cls(database)

    def detach(self) -> None:
        """Go on with a copy in memory, to see what would come of something."""
        self._database.detach()

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def uri_to_read(path: Path) -> str:
    """What SQLite is to open to read a file alone, also where nobody can write."""
    waiting = path.with_name(f"{path.name}-wal")
    # To read what others may write takes a file beside it. Where none can be made nobody writes.
    settled = not os.access(path.parent, os.W_OK) and not (
        waiting.exists() and waiting.stat().st_size
    )
    return path.absolute().as_uri() + ("?mode=ro&immutable=1" if settled else "?mode=ro")


def _statements(script: str) -> Generator[str]:
    """A script's statements one by one: `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
