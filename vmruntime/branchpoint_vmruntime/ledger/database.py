"""The ledger's SQLite file: opened, written step by step, failing in words."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    IncompatibleError,
    StorageError,
)
from branchpoint_vmruntime.ledger.schema import TABLES, VERSION

_BUSY_TIMEOUT_S = 10.0


class Database:
    """A connection. What one transaction does happens whole or not at all."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        with in_words(path):
            if not read_only:
                path.touch(mode=0o600)
            uri = path.absolute().as_uri() + ("?mode=ro" if read_only else "")
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
            )
            try:
                self._connection.row_factory = sqlite3.Row
                self._connection.execute("PRAGMA foreign_keys = ON")
                if not read_only:
                    self._prepare()
                self._check_version()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        self._connection.close()

    def rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        """What a query finds."""
        with in_words(self._path):
            return self._connection.execute(query, values).fetchall()

    def insert(self, table: str, row: dict[str, Any]) -> int:
        """Add a row, within a transaction; its number."""
        columns, places = ", ".join(row), ", ".join(f":{name}" for name in row)
        added = self._connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", row)
        assert added.lastrowid is not None
        return added.lastrowid

    @contextmanager
    def transaction(self, *, lasting: bool) -> Generator[None]:
        """Until the end of the `with`. All of it survives the death of this process.

        What is `lasting` survives a power cut as well, with all that was written before it.
        """
        with in_words(self._path):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
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
            if self._pragma("user_version") == 0:
                for statement in _statements(TABLES):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")

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

    def _check_version(self) -> None:
        found = self._pragma("user_version")
        if found != VERSION:
            raise IncompatibleError(
                f"{self._path} has schema version {found}; this branchpoint reads {VERSION}",
                hint="use the branchpoint that wrote it, or set BRANCHPOINT_HOME to another folder",
            )

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]


def _statements(script: str) -> Generator[str]:
    """A script's statements one by one: `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def in_words(path: Path) -> Generator[None]:
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
        return StorageError(
            f"{path} was locked by another process for {_BUSY_TIMEOUT_S:g} s", hint="try again"
        )
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return DamagedError(
            f"{path} is not a whole ledger: {error}", hint="move it away and start anew"
        )
    return StorageError(
        f"{path} cannot be used: {error}", hint="free space on the disk or check its permissions"
    )
