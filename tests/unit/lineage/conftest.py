"""Journals in the states the tests need them in."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_session

from branchpoint_vmruntime.lineage.journal import Journal


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "lineage.db"


@pytest.fixture
def empty_journal(journal_path: Path) -> Generator[Journal]:
    with Journal.open(journal_path) as journal:
        yield journal


@pytest.fixture
def started_journal(empty_journal: Journal) -> Journal:
    """One session, whose branch `main` stands on the base."""
    empty_journal.add_session(a_session())
    empty_journal.add_checkpoint(a_base(), advance=None)
    empty_journal.put_branch(a_branch())
    return empty_journal
