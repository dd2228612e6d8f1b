"""The tables of the ledger."""

from branchpoint_vmruntime.database import Schema

# What has been written stays, and SQLite itself holds us to it: only insert exists. What is learnt
# later is another row, and the newest counts.
_TABLES = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    session TEXT NOT NULL,
    branch TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    kind TEXT NOT NULL,
    decision TEXT NOT NULL,
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    reason TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL
) STRICT;
CREATE INDEX entries_by_session ON entries (session);
CREATE INDEX entries_by_incarnation ON entries (incarnation);
CREATE INDEX entries_by_key ON entries (session, kind, key) WHERE key != '';

CREATE TABLE outcomes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    entry INTEGER NOT NULL REFERENCES entries (number),
    ended_at TEXT NOT NULL,
    state TEXT NOT NULL,
    status INTEGER,
    sent_bytes INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    model TEXT,
    tokens_in INTEGER,
    tokens_out INTEGER,
    micros INTEGER,
    note TEXT NOT NULL
) STRICT;
CREATE INDEX outcomes_by_entry ON outcomes (entry);

CREATE TABLE results (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    entry INTEGER NOT NULL REFERENCES entries (number),
    content BLOB NOT NULL
) STRICT;
CREATE INDEX results_by_entry ON results (entry);

CREATE TRIGGER entries_are_not_rewritten BEFORE UPDATE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
CREATE TRIGGER outcomes_are_not_rewritten BEFORE UPDATE ON outcomes
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
CREATE TRIGGER outcomes_are_not_removed BEFORE DELETE ON outcomes
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
CREATE TRIGGER results_are_not_rewritten BEFORE UPDATE ON results
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
CREATE TRIGGER results_are_not_removed BEFORE DELETE ON results
BEGIN
    SELECT RAISE(ABORT, 'the ledger is only added to');
END;
"""

SCHEMA = Schema(name="ledger", version=1, tables=_TABLES)
