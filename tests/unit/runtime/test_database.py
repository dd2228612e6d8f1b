"""Files of SQLite are read also where nobody can write."""

import os
from pathlib import Path

import pytest

from branchpoint_vmruntime.database import uri_to_read
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
