"""A session that could not be opened the first time leaves its name to whoever tries again."""

import logging
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_branch
from tests.unit.runtime.leftovers import CLOSED, KEYS, a_file, a_home, with_sessions

from branchpoint_vmruntime import removal
from branchpoint_vmruntime.claiming import claim
from branchpoint_vmruntime.errors import StorageError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import forgotten_unless_opened

KEY = "nightly"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = a_home(tmp_path)
    with_sessions(home)
    return home


@pytest.fixture
def journal(home: Home) -> Generator[Journal]:
    with Journal.open(home.database) as journal:
        yield journal


def fails(home: Home, journal: Journal, key: str, *, once_open: bool = False) -> SessionRecord:
    """Have the opening of a session fail once its first machine is there, or what follows it."""
    found: list[SessionRecord] = []

    def begin() -> None:
        with (
            claim(home, journal, key) as record,
            forgotten_unless_opened(home, journal, record) as opened,
        ):
            found.append(record)
            a_file(home.session(record.id) / "authority.pem")
            journal.put_branch(a_branch("main", "base0000", session=record.id))
            if once_open:
                opened()
            raise UsageError("$API_KEY is not set on this host")

    with pytest.raises(UsageError, match="API_KEY"):
        begin()
    return found[0]


def test_of_a_new_one_that_cannot_be_opened_nothing_is_left(home: Home, journal: Journal) -> None:
    before = [it.id for it in journal.sessions()]
    made = fails(home, journal, KEY)
    assert [it.id for it in journal.sessions()] == before
    assert journal.branches(made.id) == []
    assert not [path for path in home.root.rglob("*") if made.id in str(path)]
    with claim(home, journal, KEY) as again:
        assert again.id != made.id


def test_one_that_was_opened_stays_whatever_fails_then(home: Home, journal: Journal) -> None:
    made = fails(home, journal, KEY, once_open=True)
    assert journal.session(made.id) == made


def test_one_that_has_been_open_before_stays(home: Home, journal: Journal) -> None:
    found = fails(home, journal, KEYS[CLOSED])
    assert journal.session(found.id) == found
    assert list((home.layers / CLOSED).iterdir())


def test_one_that_is_to_begin_at_a_checkpoint_stays(home: Home, journal: Journal) -> None:
    start = journal.every_checkpoint()[-1]
    with claim(home, journal, KEY) as made:
        journal.put_session(replace(made, start=start.id))
    found = fails(home, journal, KEY)
    assert journal.session(found.id) == found == replace(made, start=start.id)


def test_that_it_cannot_be_forgotten_does_not_hide_why_it_could_not_be_opened(
    home: Home, journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(removal, "_remove", refused)
    with caplog.at_level(logging.WARNING):
        fails(home, journal, KEY)
    assert f"{KEY!r}, which could not be opened, stays: the disk is full" in caplog.text
