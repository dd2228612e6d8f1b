"""The tables of the lineage store."""

from branchpoint_vmruntime.database import Schema

# A checkpoint is immutable, and SQLite itself holds us to it: only insert and delete exist. What it
# is called and what is said of it are a person's, and lie beside it.
# No foreign key from branches to checkpoints: a dropped branch may outlive what it stood on.
_TABLES = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    start TEXT,
    current TEXT
) STRICT;

CREATE TABLE checkpoints (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session TEXT REFERENCES sessions (id),
    parent TEXT REFERENCES checkpoints (id),
    label TEXT NOT NULL,
    note TEXT NOT NULL,
    kind TEXT NOT NULL,
    branch TEXT NOT NULL,
    created_at TEXT NOT NULL,
    key TEXT NOT NULL,
    cost TEXT NOT NULL,
    moment TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX checkpoints_by_session ON checkpoints (session);
CREATE INDEX checkpoints_by_parent ON checkpoints (parent);

CREATE TRIGGER checkpoints_are_immutable BEFORE UPDATE ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'a checkpoint is never rewritten');
END;

CREATE TABLE pins (
    checkpoint TEXT PRIMARY KEY REFERENCES checkpoints (id) ON DELETE CASCADE
) STRICT;

CREATE TABLE annotations (
    checkpoint TEXT PRIMARY KEY REFERENCES checkpoints (id) ON DELETE CASCADE,
    label TEXT,
    note TEXT
) STRICT;

CREATE TABLE branches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions (id),
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    parent TEXT,
    origin TEXT NOT NULL,
    head TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at TEXT NOT NULL,
    lent_to TEXT,
    UNIQUE (session, name)
) STRICT;
CREATE INDEX branches_by_head ON branches (head);

CREATE TABLE operations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions (id),
    op TEXT NOT NULL,
    branch TEXT NOT NULL,
    checkpoint TEXT,
    at TEXT NOT NULL,
    total_ms REAL NOT NULL,
    phases_ms TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX operations_by_session ON operations (session);
"""

SCHEMA = Schema(
    name="lineage store",
    version=4,
    tables=_TABLES,
    migrations={
        1: "ALTER TABLE checkpoints ADD COLUMN moment TEXT NOT NULL DEFAULT '{}';",
        2: """
            ALTER TABLE sessions ADD COLUMN start TEXT;
            ALTER TABLE sessions ADD COLUMN current TEXT;
            CREATE TABLE pins (
                checkpoint TEXT PRIMARY KEY REFERENCES checkpoints (id) ON DELETE CASCADE
            ) STRICT;
        """,
        3: """
            CREATE TABLE annotations (
                checkpoint TEXT PRIMARY KEY REFERENCES checkpoints (id) ON DELETE CASCADE,
                label TEXT,
                note TEXT
            ) STRICT;
            ALTER TABLE branches ADD COLUMN lent_to TEXT;
        """,
    },
)
