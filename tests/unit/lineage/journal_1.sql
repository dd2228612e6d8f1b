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
    UNIQUE (session, name)
) STRICT;
INSERT INTO "branches" VALUES(1,'session-1','main',0,NULL,'base0000','loaded','live','2026-03-01T12:00:00+00:00');
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
    cost TEXT NOT NULL
) STRICT;
INSERT INTO "checkpoints" VALUES(1,'base0000',NULL,NULL,'base','','base','','2026-03-01T12:00:00+00:00','qemu-tcg-768','{"stopped_ms": 0.0, "paused_ms": 0.0, "total_ms": 0.0, "dirty_bytes": 0, "memory_bytes": 419430400, "device_bytes": 0, "disk_bytes": 0, "shared_bytes": 0, "phases_ms": {"boot": 6500.0}}');
INSERT INTO "checkpoints" VALUES(2,'loaded','session-1','base0000','loaded','','user','main','2026-03-01T12:01:00+00:00','qemu-tcg-768','{"stopped_ms": 0.0, "paused_ms": 46.0, "total_ms": 0.0, "dirty_bytes": 0, "memory_bytes": 39845888, "device_bytes": 0, "disk_bytes": 0, "shared_bytes": 0, "phases_ms": {}}');
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
INSERT INTO "operations" VALUES(1,'session-1','checkpoint','main','loaded','2026-03-01T12:00:00+00:00',120.5,'{"freeze": 11.0, "stop": 0.5}','');
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
) STRICT;
INSERT INTO "sessions" VALUES(1,'session-1','/home/me/notebook.ipynb','2026-03-01T12:00:00+00:00');
CREATE INDEX checkpoints_by_session ON checkpoints (session);
CREATE INDEX checkpoints_by_parent ON checkpoints (parent);
CREATE TRIGGER checkpoints_are_immutable BEFORE UPDATE ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'a checkpoint is never rewritten');
END;
CREATE INDEX branches_by_head ON branches (head);
CREATE INDEX operations_by_session ON operations (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',1);
INSERT INTO "sqlite_sequence" VALUES('checkpoints',2);
INSERT INTO "sqlite_sequence" VALUES('branches',1);
INSERT INTO "sqlite_sequence" VALUES('operations',1);
PRAGMA user_version = 1;
