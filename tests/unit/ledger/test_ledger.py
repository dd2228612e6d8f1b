"""The ledger: what goes in comes out, stays, and survives who wrote it."""
# pyright: reportPrivateUsage=false

import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.ledger.facts import NOON, a_draft, an_outcome

from branchpoint_vmruntime.errors import (
    DamagedError,
    IncompatibleError,
    StorageError,
    UnknownNameError,
)
from branchpoint_vmruntime.ledger import (
    Decision,
    EntryKind,
    Outcome,
    OutcomeState,
    Usage,
)
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.rows import draft_to_row, outcome_to_row

FULL_OUTCOME = Outcome(
    at=NOON,
    state=OutcomeState.DONE,
    status=201,
    sent_bytes=7,
    received_bytes=1 << 40,
    duration_ms=12.5,
    usage=Usage(model="m-1", tokens_in=3, tokens_out=4, micros=5),
    note="naïve 🦊",
)


def test_an_entry_comes_back_as_it_was_begun(ledger: Ledger) -> None:
    draft = replace(
        a_draft("k", kind=EntryKind.REQUEST, fingerprint="f"),
        method="POST",
        url="https://api.example.org/orders",
        reason="rule",
    )
    entry = ledger.entry(ledger.begin(draft))
    assert entry is not None
    assert (entry.number, entry.draft, entry.outcome) == (1, draft, None)
    assert entry.at.utcoffset() is not None


def test_an_outcome_comes_back_as_it_was_given(ledger: Ledger) -> None:
    number = ledger.begin(a_draft())
    ledger.end(number, FULL_OUTCOME)
    entry = ledger.entry(number)
    assert entry is not None
    assert entry.outcome == FULL_OUTCOME


def test_usage_without_a_price_has_none_afterwards(ledger: Ledger) -> None:
    usage = Usage(model="", tokens_in=1, tokens_out=0)
    number = ledger.note(a_draft(), replace(FULL_OUTCOME, usage=usage))
    entry = ledger.entry(number)
    assert entry is not None
    assert entry.outcome is not None
    assert entry.outcome.usage == usage


def test_of_several_outcomes_the_newest_counts(ledger: Ledger) -> None:
    number = ledger.begin(a_draft())
    for state in (OutcomeState.UNKNOWN, OutcomeState.ACCEPTED):
        ledger.end(number, an_outcome(state))
    assert [entry.outcome for entry in ledger.entries("s-1")] == [an_outcome(OutcomeState.ACCEPTED)]


def test_a_note_is_begun_and_ended_as_one(ledger: Ledger) -> None:
    number = ledger.note(a_draft(), an_outcome())
    entry = ledger.entry(number)
    assert entry is not None
    assert entry.outcome == an_outcome()


def test_the_position_is_the_newest_number(ledger: Ledger) -> None:
    assert ledger.position() == 0
    assert [ledger.note(a_draft()), ledger.begin(a_draft()), ledger.position()] == [1, 2, 2]


def test_entries_are_chosen_by_session_position_and_branch(ledger: Ledger) -> None:
    ledger.note(a_draft(session="s-2"))
    for branch in ("main", "ridge", "main"):
        ledger.note(a_draft(branch=branch))
    assert [entry.number for entry in ledger.entries("s-1")] == [2, 3, 4]
    assert [entry.number for entry in ledger.entries("s-1", since=2)] == [3, 4]
    assert [entry.number for entry in ledger.entries("s-1", branch="main")] == [2, 4]
    assert ledger.entry(5) is None


def test_under_a_key_is_the_newest_that_was_let_through(ledger: Ledger) -> None:
    ledger.note(a_draft("k"))
    newest = ledger.note(a_draft("k"))
    ledger.note(a_draft("k", decision=Decision.REPLAYED))
    ledger.note(a_draft("k", kind=EntryKind.REQUEST))
    ledger.note(a_draft("k", session="s-2"))
    ledger.note(a_draft("other"))
    found = ledger.open_under_key("s-1", EntryKind.ONCE, "k")
    assert found is not None
    assert found.number == newest


def test_nothing_is_under_no_key(ledger: Ledger) -> None:
    ledger.note(a_draft(""))
    assert ledger.open_under_key("s-1", EntryKind.ONCE, "") is None


def test_unfinished_is_what_a_machine_began_and_has_no_outcome(ledger: Ledger) -> None:
    ledger.note(a_draft(kind=EntryKind.WAKE))
    ledger.note(a_draft(), an_outcome())
    ledger.note(a_draft(decision=Decision.REFUSED))
    ledger.begin(a_draft(incarnation="inc-2"))
    number = ledger.begin(a_draft(kind=EntryKind.TUNNEL))
    assert [entry.number for entry in ledger.unfinished("inc-1")] == [number]


def test_the_newest_result_is_given(ledger: Ledger) -> None:
    number = ledger.begin(a_draft())
    assert ledger.result(number) is None
    ledger.end(number, an_outcome(), result=b"\x00first")
    ledger.end(number, an_outcome(), result=b"")
    assert ledger.result(number) == b""


@given(text=some.text(some.characters(categories=None), max_size=8))
def test_any_text_may_be_written_and_is_found_again_as_a_key(text: str) -> None:
    with TemporaryDirectory() as folder, Ledger.open(Path(folder) / "l.db") as ledger:
        number = ledger.note(replace(a_draft(f"k{text}"), url=text, reason=text, method=text))
        found = ledger.open_under_key("s-1", EntryKind.ONCE, f"k{text}")
        assert found is not None
        assert found.number == number


def test_a_number_made_up_outside_is_written_as_far_as_it_fits(ledger: Ledger) -> None:
    usage = Usage(model="m", tokens_in=1 << 80, tokens_out=-(1 << 80), micros=1 << 80)
    ledger.note(a_draft(), replace(FULL_OUTCOME, usage=usage))
    [entry] = ledger.entries("s-1")
    assert entry.outcome is not None
    assert entry.outcome.usage is not None
    assert entry.outcome.usage.tokens_in == (1 << 63) - 1


@pytest.mark.parametrize("table", ["entries", "outcomes", "results"])
@pytest.mark.parametrize("change", ["UPDATE {} SET number = 9", "DELETE FROM {}"])
def test_what_is_written_can_be_neither_changed_nor_removed(
    ledger: Ledger, ledger_path: Path, table: str, change: str
) -> None:
    ledger.end(ledger.begin(a_draft()), an_outcome(), result=b"x")
    connection = sqlite3.connect(ledger_path)
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        connection.execute(change.format(table))
    connection.close()


def test_an_outcome_of_nothing_is_refused(ledger: Ledger) -> None:
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        ledger.end(7, an_outcome(), result=b"x")
    assert ledger.result(7) is None


def test_only_its_owner_may_read_it(ledger: Ledger, ledger_path: Path) -> None:
    assert stat.S_IMODE(ledger_path.stat().st_mode) == 0o600


def test_two_may_write_the_same_file(ledger: Ledger, ledger_path: Path) -> None:
    with Ledger.open(ledger_path) as other:
        assert [ledger.begin(a_draft()), other.begin(a_draft()), ledger.begin(a_draft())] == [
            1,
            2,
            3,
        ]
        assert len(other.entries("s-1")) == 3


def test_an_intent_outlives_a_process_that_is_killed(ledger: Ledger, ledger_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from tempfile import TemporaryDirectory
from tests.unit.ledger.facts import a_draft
from branchpoint_vmruntime.ledger.ledger import Ledger
Ledger.open(Path({str(ledger_path)!r})).begin(a_draft("killed"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert [entry.draft.key for entry in ledger.entries("s-1")] == ["killed"]


def test_who_only_reads_sees_what_is_written_and_writes_nothing(
    ledger: Ledger, ledger_path: Path
) -> None:
    with Ledger.read(ledger_path) as reader:
        ledger.begin(a_draft())
        assert reader.position() == 1
        with pytest.raises(StorageError, match="readonly"):
            reader.begin(a_draft())


def test_reading_where_there_is_none_makes_none(ledger_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="ledger"):
        Ledger.read(ledger_path)
    assert not ledger_path.exists()


def test_a_ledger_of_another_version_is_refused_and_left_alone(ledger_path: Path) -> None:
    Ledger.open(ledger_path).close()
    connection = sqlite3.connect(ledger_path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for way in (Ledger.open, Ledger.read):
        with pytest.raises(IncompatibleError, match="99"):
            way(ledger_path)


def test_a_file_that_is_no_ledger_is_called_damaged(ledger_path: Path) -> None:
    ledger_path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DamagedError, match="ledger"):
        Ledger.open(ledger_path)


def test_a_folder_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere") as caught:
        Ledger.open(tmp_path / "nowhere" / "ledger.db")
    assert caught.value.hint


def test_a_full_disk_leaves_the_ledger_as_it_was(ledger: Ledger) -> None:
    before = ledger.note(a_draft("before"))
    pages = ledger._database.rows("PRAGMA page_count")[0][0]
    ledger._database.rows(f"PRAGMA max_page_count = {pages}")
    number = ledger.begin(a_draft("small"))
    with pytest.raises(StorageError, match="full") as caught:
        ledger.end(number, an_outcome(), result=bytes(1 << 20))
    assert "free space" in caught.value.hint
    assert [entry.number for entry in ledger.entries("s-1")] == [before, number]
    assert ledger.result(number) is None


def test_rows_hold_what_the_tables_have(ledger: Ledger) -> None:
    for table, row, more in (
        ("entries", draft_to_row(a_draft(), NOON), {"number"}),
        ("outcomes", outcome_to_row(FULL_OUTCOME), {"number", "entry"}),
    ):
        columns = {each["name"] for each in ledger._database.rows(f"PRAGMA table_info({table})")}
        assert columns == set(row) | more
