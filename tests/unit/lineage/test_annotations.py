"""What a person calls a checkpoint later: beside it, as it is read from then on, gone with it."""

import sqlite3
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

from branchpoint_vmruntime.errors import StorageError, UnknownNameError
from branchpoint_vmruntime.lineage import BranchName, BranchState, Cell, CheckpointId, Moment
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.lineage.schema import SCHEMA

LOADED = CheckpointId("aaaaaaaa")
MAIN = BranchName("main")


@pytest.fixture
def journal(started_journal: Journal) -> Journal:
    """A session with one checkpoint of its own."""
    moment = Moment(count=1, cell=Cell(id="c", count=1, source="x"))
    loaded = replace(a_checkpoint(LOADED, label="loaded"), note="before", moment=moment)
    started_journal.add_checkpoint(loaded, advance=MAIN)
    return started_journal


@pytest.fixture
def version_3(journal_path: Path) -> Path:
    """A store with one checkpoint, as version 3 left it."""
    with Journal.open(journal_path) as journal:
        journal.add_session(a_session())
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        journal.add_checkpoint(a_checkpoint(LOADED, label="loaded"), advance=MAIN)
    connection = sqlite3.connect(journal_path)
    connection.executescript(
        "DROP TABLE annotations; ALTER TABLE branches DROP COLUMN lent_to; PRAGMA user_version = 3;"
    )
    connection.close()
    return journal_path


def told(journal: Journal) -> tuple[str, str]:
    """What the checkpoint is called, and what is said of it."""
    found = journal.checkpoint(LOADED)
    assert found is not None
    return found.label, found.note


@pytest.mark.parametrize("label", ["größe", "加载", "загружено.2", "تحميل"])
def test_a_label_of_any_alphabet_is_read_as_it_was_given(journal: Journal, label: str) -> None:
    assert journal.annotate(LOADED, label=label).label == label
    assert told(journal) == (label, "before")
    assert resolve(label, journal.checkpoints(SESSION)).id == LOADED


@pytest.mark.parametrize("note", ["", "🦊 rows\nwith NaN", "x" * 10_000])
def test_a_note_may_be_any_text(journal: Journal, note: str) -> None:
    journal.annotate(LOADED, note=note)
    assert told(journal) == ("loaded", note)


def test_what_is_not_given_stays_as_it_was_given_last(journal: Journal) -> None:
    journal.annotate(LOADED, label="cleaned")
    journal.annotate(LOADED, note="after")
    assert told(journal) == ("cleaned", "after")
    journal.annotate(LOADED, label="loaded-again")
    assert told(journal) == ("loaded-again", "after")


def test_all_else_of_a_checkpoint_is_as_it_was_saved(journal: Journal) -> None:
    before = journal.checkpoint(LOADED)
    assert before is not None
    after = journal.annotate(LOADED, label="cleaned", note="after")
    assert after == replace(before, label="cleaned", note="after")
    assert journal.checkpoints(SESSION)[-1] == after
    assert journal.every_checkpoint()[-1] == after


def test_whoever_only_reads_sees_an_annotation_at_once(
    journal: Journal, journal_path: Path
) -> None:
    with Journal.read(journal_path) as reader:
        assert told(reader) == ("loaded", "before")
        journal.annotate(LOADED, label="größe")
        assert told(reader) == ("größe", "before")


def test_a_checkpoint_that_is_not_there_cannot_be_annotated(journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="checkpoint 'gone'"):
        journal.annotate(CheckpointId("gone"), label="x")


def test_an_annotation_goes_with_its_checkpoint(journal: Journal, journal_path: Path) -> None:
    journal.annotate(LOADED, label="größe")
    journal.put_branch(a_branch(head=LOADED, state=BranchState.DROPPED))
    journal.remove_checkpoint(LOADED)
    connection = sqlite3.connect(journal_path)
    assert connection.execute("SELECT count(*) FROM annotations").fetchone() == (0,)
    connection.close()


def test_annotations_go_with_their_session(journal: Journal, journal_path: Path) -> None:
    journal.annotate(LOADED, note="x")
    journal.remove_session(SESSION)
    connection = sqlite3.connect(journal_path)
    assert connection.execute("SELECT count(*) FROM annotations").fetchone() == (0,)
    connection.close()


def test_who_only_reads_reads_version_3_and_leaves_it_as_it_is(version_3: Path) -> None:
    with Journal.read(version_3) as journal:
        assert told(journal) == ("loaded", "")
        assert [branch.lent_to for branch in journal.branches(SESSION)] == [None]
        with pytest.raises(StorageError):
            journal.annotate(LOADED, label="x")
    connection = sqlite3.connect(version_3)
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    connection.close()


def test_what_version_3_wrote_can_be_annotated_once_it_is_opened(version_3: Path) -> None:
    with Journal.open(version_3) as journal:
        assert told(journal) == ("loaded", "")
        journal.annotate(LOADED, label="größe")
        assert told(journal) == ("größe", "")
    with Journal.read(version_3) as journal:
        assert told(journal) == ("größe", "")
    connection = sqlite3.connect(version_3)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA.version,)
    connection.close()


def test_the_newest_of_what_was_done_are_told_oldest_first(journal: Journal) -> None:
    for op in ("start", "checkpoint", "fork"):
        journal.add_operation(an_operation(op))
    assert [it.op for it in journal.operations(SESSION, newest=2)] == ["checkpoint", "fork"]
    assert [it.op for it in journal.operations(SESSION, newest=9)] == [
        "start",
        "checkpoint",
        "fork",
    ]
