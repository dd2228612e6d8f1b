"""All sessions at one glance, and what it takes to be rid of one."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.lineage.facts import DAY
from tests.unit.runtime.leftovers import (
    CLOSED,
    KEYS,
    OPEN,
    a_file,
    a_home,
    left_by_a_killed_owner,
    machine,
    with_sessions,
)

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.errors import SessionBusyError, UnknownNameError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState, Usage
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.overview import SessionOverview, SpentSoFar, overview
from branchpoint_vmruntime.removal import remove_session


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = a_home(tmp_path)
    with_sessions(home)
    return home


def session(home: Home, wanted: str) -> SessionOverview:
    return next(it for it in overview(home).sessions if it.id == wanted)


def spend(home: Home, session: str, tokens: int) -> None:
    draft = Draft(
        session=session,
        branch="main",
        incarnation="i-1",
        checkpoint="c-1",
        kind=EntryKind.REQUEST,
        decision=Decision.ALLOWED,
    )
    usage = Usage(model="m", tokens_in=tokens, tokens_out=1, micros=500)
    outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.DONE, usage=usage)
    with Ledger.open(home.ledger) as ledger:
        number = ledger.begin(draft)
        # The newest outcome counts, and it alone.
        ledger.end(number, outcome)
        ledger.end(number, outcome)


def test_a_home_in_which_nothing_was_opened_has_nothing_to_show_and_stays_as_it_is(
    tmp_path: Path,
) -> None:
    nowhere = Home(tmp_path / "none", tmp_path / "none" / "run")
    assert overview(nowhere).sessions == ()
    assert overview(nowhere).leaks == ()
    assert not nowhere.root.exists()


def test_a_closed_session_is_shown_with_what_it_has_and_takes(home: Home) -> None:
    shown = session(home, CLOSED)
    assert (shown.key, shown.owner, shown.open) == (KEYS[CLOSED], None, False)
    assert (shown.checkpoints, shown.machines, shown.own_bytes) == (2, 0, 0)
    assert [branch.name for branch in shown.branches] == ["main"]
    assert shown.newest_at is not None
    assert shown.newest_at > DAY
    before = shown.disk_bytes
    a_file(home.layers / CLOSED / "more", 1 << 20)
    assert session(home, CLOSED).disk_bytes - before == 1 << 20


def test_a_file_that_is_linked_twice_counts_once(home: Home) -> None:
    before = session(home, CLOSED).disk_bytes
    overlay = a_file(home.live / CLOSED / "main" / "overlay", 1 << 20)
    (home.layers / CLOSED / f"{CLOSED}-0" / "disk-000.qcow2").hardlink_to(overlay)
    assert session(home, CLOSED).disk_bytes - before < 2 << 20


def test_a_file_that_another_session_links_too_would_not_be_given_back(home: Home) -> None:
    before = session(home, CLOSED).disk_bytes
    memory = a_file(home.layers / CLOSED / f"{CLOSED}-0" / "imported", 1 << 20)
    (home.layers / OPEN / f"{OPEN}-0" / "imported").hardlink_to(memory)
    assert session(home, CLOSED).disk_bytes - before < 1 << 20


def test_an_open_session_is_shown_with_its_owner_and_its_machines(home: Home) -> None:
    with locked(home.layers / OPEN, wait=False), machine(home, OPEN, orphaned=False):
        shown = session(home, OPEN)
    assert shown.owner is not None
    assert (shown.owner.pid, shown.owner.kind) == (os.getpid(), OwnerKind.SCRIPT)
    assert shown.machines == 1
    assert shown.own_bytes > 0
    assert shown.shared_bytes > 0


def test_a_session_is_shown_with_what_it_has_had_from_outside(home: Home) -> None:
    assert session(home, OPEN).spent == SpentSoFar()
    spend(home, OPEN, 100)
    spend(home, OPEN, 20)
    assert session(home, OPEN).spent == SpentSoFar(
        requests=2, tokens_in=120, tokens_out=2, micros=1000
    )
    assert session(home, CLOSED).spent == SpentSoFar()


def test_what_was_left_behind_is_shown(home: Home) -> None:
    left = left_by_a_killed_owner(home, CLOSED)
    assert {leak.path for leak in overview(home).leaks} == left


def test_a_removed_session_leaves_nothing_but_what_the_ledger_says(home: Home) -> None:
    spend(home, CLOSED, 100)
    left_by_a_killed_owner(home, CLOSED)
    removed = remove_session(home, CLOSED)
    assert (removed.session.key, removed.checkpoints) == (KEYS[CLOSED], 2)
    assert removed.freed_bytes >= 4 * 8192
    assert not [path for path in home.root.rglob("*") if CLOSED in str(path)]
    assert [it.id for it in overview(home).sessions] == [OPEN]
    with Journal.read(home.database) as journal:
        assert journal.checkpoints(removed.session.id) == []
    with Ledger.read(home.ledger) as ledger:
        assert len(ledger.entries(CLOSED)) == 1


def test_a_session_that_somebody_has_open_is_not_removed(home: Home) -> None:
    with locked(home.layers / OPEN, wait=False):
        with pytest.raises(SessionBusyError, match=f"process {os.getpid()}"):
            remove_session(home, OPEN)
        assert session(home, OPEN).checkpoints == 2


def test_a_session_that_is_not_there_is_named_with_those_that_are(home: Home) -> None:
    with pytest.raises(UnknownNameError, match=f"no session 'nope'; there is: .*{OPEN}"):
        remove_session(home, "nope")


def test_in_a_home_without_a_record_there_is_no_session_to_remove(tmp_path: Path) -> None:
    nowhere = Home(tmp_path / "none", tmp_path / "none" / "run")
    with pytest.raises(UnknownNameError):
        remove_session(nowhere, "nope")
    assert not nowhere.root.exists()
