"""Files of SQLite are read also where nobody can write, and copied to see what would come."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_branch, a_session

from branchpoint_vmruntime.database import uri_to_read
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage.journal import Journal


def nothing_can_be_written(_path: object, mode: int) -> bool:
    return not mode & os.W_OK


def test_a_journal_is_read_where_no_file_can_be_made_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "größe #1?.db"
    Journal.open(path).close()
    monkeypatch.setattr(os, "access", nothing_can_be_written)
    with Journal.read(path) as journal:
        assert journal.sessions() == []
    assert [it.name for it in tmp_path.iterdir()] == [path.name]


def test_what_waits_to_be_taken_into_the_file_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lineage.db"
    monkeypatch.setattr(os, "access", nothing_can_be_written)
    assert "immutable" in uri_to_read(path)
    path.with_name("lineage.db-wal").write_bytes(b"waiting")
    assert "immutable" not in uri_to_read(path)


def test_nothing_that_is_done_to_a_copy_reaches_the_file(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "lineage.db") as journal:
        journal.add_session(a_session())
        journal.detach()
        assert [it.id for it in journal.sessions()] == [a_session().id]
        journal.remove_session(a_session().id)
        assert journal.sessions() == []
        with Journal.read(tmp_path / "lineage.db") as file:
            assert [it.id for it in file.sessions()] == [a_session().id]


def test_a_copy_holds_to_the_same_rules(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "lineage.db") as journal:
        journal.detach()
        with pytest.raises(UnknownNameError, match="no session"):
            journal.put_branches([replace(a_branch(), state=BranchState.DROPPED)])
