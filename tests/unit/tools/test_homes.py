"""A home of tests is lent the base that its sessions stand on, and never the want of another."""

from pathlib import Path

import pytest
from tests.support import homes
from tests.unit.storage.stores import SmallStore, small_home

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.store import FACTS


@pytest.fixture
def lender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallStore:
    """A home where new sessions stand on a base of the key `now`."""
    monkeypatch.setattr(homes, "key_of_now", _now)
    return SmallStore(small_home(tmp_path / "lender"))


@pytest.fixture
def borrower(tmp_path: Path) -> Home:
    return small_home(tmp_path / "borrower")


def _now(_home: Home) -> str:
    return "now"


def lent(lender: SmallStore, borrower: Home) -> list[str]:
    """The names of the bases that are in the borrower then, each with its record."""
    homes.lend_base(lender.home, borrower)
    found = SmallStore(borrower)
    records = [each.id for each in found.journal.every_checkpoint()]
    found.journal.close()
    assert sorted(path.name for path in (borrower.layers / "base").iterdir()) == records
    return [str(name) for name in records]


def test_the_base_of_now_is_lent(lender: SmallStore, borrower: Home) -> None:
    lender.base("base0001")
    assert lent(lender, borrower) == ["base0001"]


def test_a_newer_base_of_something_else_is_not(lender: SmallStore, borrower: Home) -> None:
    lender.base("base0001")
    lender.base("base0002", key="of another kernel")
    assert lent(lender, borrower) == ["base0001"]


def test_a_base_that_cannot_be_read_stands_in_no_ones_way(
    lender: SmallStore, borrower: Home
) -> None:
    lender.base("base0001")
    damaged = lender.base("base0002", key="of an earlier version")
    (lender.home.layers / "base" / damaged.id / FACTS).unlink()
    assert lent(lender, borrower) == ["base0001"]


def test_where_the_base_of_now_cannot_be_read_there_is_none_to_lend(
    lender: SmallStore, borrower: Home
) -> None:
    damaged = lender.base("base0001")
    (lender.home.layers / "base" / damaged.id / FACTS).write_text("{}")
    assert lent(lender, borrower) == []


def test_where_nothing_was_made_yet_there_is_none_to_lend(
    lender: SmallStore, borrower: Home
) -> None:
    assert lent(lender, borrower) == []
