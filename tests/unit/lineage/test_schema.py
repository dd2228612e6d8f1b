"""The store from version to version: what an older branchpoint wrote is read, and carried over."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lineage.facts import (
    SESSION,
    a_base,
    a_branch,
    a_checkpoint,
    a_session,
    an_operation,
)

from branchpoint_vmruntime.errors import StorageError
from branchpoint_vmruntime.lineage import Cell, CheckpointId, CheckpointKind, Moment, OpenRequest
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.rows import moment_from_json, moment_to_json
from branchpoint_vmruntime.lineage.schema import SCHEMA

WRITTEN_BY_VERSION_1 = Path(__file__).with_name("journal_1.sql").read_text()
CELL = Cell(id="c-7", count=7, source="for x in y:\n    print('naïve')")
MOMENT = Moment(
    count=7,
    cell=CELL,
    done=(Cell(id="", count=6, source="1"), CELL),
    open=(OpenRequest(id="m-1", cell=CELL, question='{"prompt": "? "}'),),
)


@pytest.fixture
def older(journal_path: Path) -> Path:
    """A store as version 1 left it."""
    connection = sqlite3.connect(journal_path)
    connection.executescript(WRITTEN_BY_VERSION_1)
    connection.close()
    return journal_path


@pytest.fixture(params=list(SCHEMA.migrations))
def of_each_version(request: pytest.FixtureRequest, older: Path) -> Path:
    """A store as each version before this one left it."""
    connection = sqlite3.connect(older)
    for version in range(1, request.param):
        connection.executescript(SCHEMA.migrations[version])
    connection.execute(f"PRAGMA user_version = {request.param}")
    connection.close()
    return older


READINGS: dict[str, Callable[[Journal], object]] = {
    "base": lambda it: it.base(a_base().key),
    "branches": lambda it: it.branches(SESSION),
    "branches_on": lambda it: it.branches_on(CheckpointId("loaded")),
    "checkpoint": lambda it: it.checkpoint(CheckpointId("loaded")),
    "checkpoints": lambda it: it.checkpoints(SESSION),
    "every_checkpoint": lambda it: it.every_checkpoint(),
    "kin": lambda it: it.kin(SESSION),
    "lent": lambda it: it.lent(),
    "loan_of": lambda it: it.loan_of(SESSION),
    "operations": lambda it: it.operations(SESSION),
    "pins": lambda it: it.pins(),
    "removed_sessions": lambda it: it.removed_sessions(),
    "session": lambda it: it.session(SESSION),
    "session_by_key": lambda it: it.session_by_key(a_session().key),
    "sessions": lambda it: it.sessions(),
    "stood_on": lambda it: it.stood_on(SESSION),
    "tallies": lambda it: it.tallies(),
}


WRITES = {
    *("add_checkpoint", "add_lineage", "add_operation", "add_session", "annotate", "close"),
    *("detach", "forget_needless", "lend", "open", "pin", "put_branch", "put_branches"),
    *("put_session", "read", "rekey", "remove_checkpoint", "remove_session", "rename_branches"),
}


def columns(path: Path) -> list[tuple[object, ...]]:
    """The columns of every table, by table and place."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(
            "SELECT m.name, c.* FROM sqlite_schema m, pragma_table_info(m.name) c"
            " WHERE m.type = 'table' ORDER BY m.name, c.cid"
        ).fetchall()
    finally:
        connection.close()


def contents(journal: Journal) -> object:
    """All that is on record in it."""
    return (
        journal.sessions(),
        journal.checkpoints(SESSION),
        journal.branches(SESSION),
        journal.operations(SESSION),
    )


OLD_CONTENTS = (
    [a_session()],
    [a_base(), a_checkpoint("loaded")],
    [a_branch("main", "loaded")],
    [an_operation(checkpoint="loaded")],
)


def test_all_that_version_1_wrote_is_carried_over(older: Path) -> None:
    with Journal.open(older) as journal:
        assert contents(journal) == OLD_CONTENTS


def test_a_store_that_was_carried_over_is_made_like_a_new_one(older: Path, tmp_path: Path) -> None:
    Journal.open(older).close()
    Journal.open(tmp_path / "new.db").close()
    assert columns(older) == columns(tmp_path / "new.db")


def test_a_store_is_carried_over_once(older: Path) -> None:
    for number in (1, 2):
        with Journal.open(older) as journal:
            journal.add_checkpoint(a_checkpoint(f"new-{number}", "loaded"), advance=None)
            assert len(journal.checkpoints(SESSION)) == 2 + number


def test_who_only_reads_reads_version_1_and_leaves_it_as_it_is(older: Path) -> None:
    before = columns(older)
    with Journal.read(older) as journal:
        assert contents(journal) == OLD_CONTENTS
    assert columns(older) == before


@pytest.mark.parametrize("reading", READINGS)
def test_who_only_reads_an_older_store_reads_what_carrying_it_over_would_make(
    of_each_version: Path, reading: str
) -> None:
    written = of_each_version.read_bytes()
    with Journal.read(of_each_version) as journal:
        found = READINGS[reading](journal)
    assert of_each_version.read_bytes() == written
    with Journal.open(of_each_version) as journal:
        assert found == READINGS[reading](journal)


def test_every_way_to_read_a_store_is_tried_on_an_older_one() -> None:
    public = {name for name in dir(Journal) if name[0].islower()}
    assert public - WRITES - READINGS.keys() == set()


def test_who_only_reads_an_older_store_cannot_write_to_it(of_each_version: Path) -> None:
    with (
        Journal.read(of_each_version) as journal,
        pytest.raises(StorageError, match="readonly"),
    ):
        journal.remove_session(SESSION)


def test_what_would_come_of_something_is_told_of_an_older_store_too(of_each_version: Path) -> None:
    with Journal.read(of_each_version) as journal:
        journal.detach()
        journal.remove_session(SESSION)
        assert journal.sessions() == []


def test_a_moment_is_kept_with_its_checkpoint(started_journal: Journal) -> None:
    checkpoint = replace(a_checkpoint("aaaa", kind=CheckpointKind.AUTO), moment=MOMENT)
    started_journal.add_checkpoint(checkpoint, advance=None)
    assert started_journal.checkpoint(CheckpointId("aaaa")) == checkpoint


@pytest.mark.parametrize("source", ["\ud800 alone", "\x00", "🦊", ""])
def test_a_cell_may_hold_any_text(started_journal: Journal, source: str) -> None:
    moment = Moment(count=1, cell=Cell(id="\udfff", count=1, source=source))
    started_journal.add_checkpoint(replace(a_checkpoint("aaaa"), moment=moment), advance=None)
    kept = started_journal.checkpoint(CheckpointId("aaaa"))
    assert kept is not None
    assert kept.moment == moment


def test_of_a_moment_without_a_cell_nothing_is_made_up() -> None:
    assert moment_from_json(moment_to_json(Moment())) == Moment()
    assert moment_from_json("{}") == Moment()
