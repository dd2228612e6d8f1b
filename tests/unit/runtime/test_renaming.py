"""A notebook that is called otherwise keeps its session, closed or open, and whatever it lent."""

from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session
from tests.unit.runtime.lent import KEY, LENDER
from tests.unit.runtime.served import served

from branchpoint_vmruntime.borrowing import lend_on_record, take_up
from branchpoint_vmruntime.errors import NameTakenError, StorageError, UnknownNameError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.renaming import Renamed, follow_path, rename_session, tell
from branchpoint_vmruntime.session_control import SessionControl

OLD, NEW = "/notes/Untitled.ipynb", "/notes/model.ipynb"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, tmp_path)
    home.ensure()
    return home


@pytest.fixture
def journal(home: Home) -> Generator[Journal]:
    with Journal.open(home.database) as journal:
        journal.add_checkpoint(a_base(), advance=None)
        yield journal


def with_sessions(journal: Journal, *keys: str, saved: bool = True) -> None:
    """A session for each key, whose id is the key's number among all."""
    for number, key in enumerate(keys, start=len(journal.sessions()) + 1):
        journal.add_session(a_session(f"s-{number}", key))
        if saved:
            it = a_checkpoint(f"c-{number}", session=f"s-{number}")
            journal.add_checkpoint(it, advance=None)


def keys(journal: Journal) -> list[str]:
    return [it.key for it in journal.sessions()]


def test_the_session_of_a_notebook_is_found_where_that_is_now(home: Home, journal: Journal) -> None:
    with_sessions(journal, OLD, "/notes/Untitled.ipynb.ipynb", "/notes/other.ipynb", "Untitled")
    renamed = follow_path(home, OLD, NEW)
    assert [(it.id, it.key) for it in renamed.sessions] == [("s-1", NEW)]
    assert keys(journal) == [NEW, "/notes/Untitled.ipynb.ipynb", "/notes/other.ipynb", "Untitled"]


def test_those_that_were_opened_beside_it_go_along(home: Home, journal: Journal) -> None:
    with_sessions(journal, f"{OLD} (2)", OLD, f"{OLD} (12)", "/notes/Untitled.ipynb (2).ipynb")
    follow_path(home, OLD, NEW)
    assert keys(journal) == [
        f"{NEW} (2)",
        NEW,
        f"{NEW} (12)",
        "/notes/Untitled.ipynb (2).ipynb",
    ]


def test_those_of_all_notebooks_of_a_folder_go_where_that_is_now(
    home: Home, journal: Journal
) -> None:
    with_sessions(journal, "/n/ä/a.ipynb", "/n/ä/deep/b.ipynb (2)", "/n/ä.ipynb", "/n/äb/a.ipynb")
    follow_path(home, "/n/ä", "/n/new/ö")
    assert keys(journal) == [
        "/n/new/ö/a.ipynb",
        "/n/new/ö/deep/b.ipynb (2)",
        "/n/ä.ipynb",
        "/n/äb/a.ipynb",
    ]


def test_a_path_that_is_not_utf_8_is_followed(home: Home, journal: Journal) -> None:
    with_sessions(journal, "/n/\\udcfc.ipynb")
    follow_path(home, "/n/\udcfc.ipynb", "/n/\udcf6.ipynb")
    assert keys(journal) == ["/n/\\udcf6.ipynb"]


def test_a_notebook_whose_new_name_has_a_session_stays_with_all_beside_it_and_others_go(
    home: Home, journal: Journal
) -> None:
    before = ["/n/a/one.ipynb", "/n/a/two.ipynb", "/n/a/one.ipynb (2)", "/n/b/one.ipynb (2)"]
    with_sessions(journal, *before)
    renamed = follow_path(home, "/n/a", "/n/b")
    assert keys(journal) == [before[0], "/n/b/two.ipynb", *before[2:]]
    (refused,) = renamed.refused
    assert str(refused) == "there is already a session '/n/b/one.ipynb (2)'"
    assert "branchpoint rm '/n/b/one.ipynb (2)'" in refused.hint


def test_one_that_cannot_be_written_keeps_no_other_of_its_folder_from_going(
    home: Home, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_sessions(journal, "/n/a/one.ipynb", "/n/a/two.ipynb", "/n/a/three.ipynb")
    real = Journal.rekey

    def rekey(it: Journal, keys: Mapping[SessionId, str]) -> list[SessionRecord]:
        if SessionId("s-2") in keys:
            raise StorageError("the disk is full")
        return real(it, keys)

    monkeypatch.setattr(Journal, "rekey", rekey)
    renamed = follow_path(home, "/n/a", "/n/b")
    assert keys(journal) == ["/n/b/one.ipynb", "/n/a/two.ipynb", "/n/b/three.ipynb"]
    assert [str(error) for error in renamed.refused] == ["the disk is full"]


def test_a_session_that_has_saved_nothing_gives_way(home: Home, journal: Journal) -> None:
    with_sessions(journal, OLD)
    with_sessions(journal, NEW, saved=False)
    assert not follow_path(home, OLD, NEW).refused
    assert [(it.id, it.key) for it in journal.sessions()] == [("s-1", NEW)]


def test_one_that_is_open_does_not_give_way(home: Home, journal: Journal) -> None:
    with_sessions(journal, OLD)
    with_sessions(journal, NEW, saved=False)
    (home.layers / "s-2").mkdir()
    with locked(home.layers / "s-2", wait=False):
        assert follow_path(home, OLD, NEW).refused
    assert keys(journal) == [OLD, NEW]


def test_where_there_is_no_session_yet_nothing_is_made(home: Home) -> None:
    assert follow_path(home, OLD, NEW) == Renamed()
    assert not home.database.exists()


def test_a_session_is_renamed_by_its_id(home: Home, journal: Journal) -> None:
    with_sessions(journal, OLD, "taken")
    assert [it.key for it in rename_session(home, "s-1", "näme").sessions] == ["näme"]
    with pytest.raises(NameTakenError, match="already a session 'taken'"):
        rename_session(home, "s-1", "taken")
    with pytest.raises(UnknownNameError):
        rename_session(home, "s-9", "other")
    assert keys(journal) == ["näme", "taken"]


@in_a_loop
async def test_whoever_has_it_open_goes_on_and_tells_its_new_key(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path)
    home.ensure()
    async with served(tmp_path) as there, SessionControl(there.socket) as control:
        seen = (await control.view()).version
        renamed = rename_session(home, "s-1", NEW)
        await tell(home, renamed)
        assert (await control.watch(seen)) != seen
        assert (await control.view()).key == NEW
        assert (await control.session()).key == NEW
        await control.checkpoint("loaded")
        await control.fork(names=["ridge"])
        await control.switch("ridge")
        assert there.office.journal.session_by_key(NEW) is not None
        assert there.office.journal.session_by_key("notebook") is None


@in_a_loop
async def test_a_branch_stays_lent_to_a_notebook_that_is_renamed(
    home: Home, journal: Journal
) -> None:
    journal.add_session(LENDER)
    journal.add_checkpoint(a_checkpoint("c1", session="lender", branch="ridge"), advance=None)
    journal.put_branch(a_branch("ridge", "c1", session="lender", state=BranchState.PAUSED))
    to = await lend_on_record(home, "lender", "ridge", KEY)
    renamed = follow_path(home, KEY, NEW)
    assert renamed.shown_by == {to.id, "lender"}
    found = journal.session_by_key(NEW)
    assert found is not None
    loan = await take_up(home, journal, found, fresh=True)
    assert loan is not None
    assert (loan.lent, loan.branch, loan.lender) == (True, "ridge", LENDER.key)
    follow_path(home, LENDER.key, "/notes/of-another-name.ipynb")
    again = await take_up(home, journal, found, fresh=True)
    assert again is not None
    assert again.lender == "/notes/of-another-name.ipynb"


def test_a_session_that_is_gone_is_renamed_no_more(home: Home, journal: Journal) -> None:
    with_sessions(journal, OLD)
    remove_session(home, "s-1")
    assert follow_path(home, OLD, NEW) == Renamed()
    with pytest.raises(UnknownNameError):
        journal.rekey({SessionId("s-1"): NEW})
