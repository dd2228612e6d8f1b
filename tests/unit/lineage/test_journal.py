"""The journal: what goes in comes out, and a refused step leaves nothing behind."""
# pyright: reportPrivateUsage=false

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lineage.facts import (
    KEY,
    SESSION,
    a_base,
    a_branch,
    a_checkpoint,
    a_session,
    an_operation,
)

from branchpoint_vmruntime.errors import (
    DamagedError,
    IncompatibleError,
    NameTakenError,
    StorageError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    CheckpointCost,
    CheckpointId,
    SessionId,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.tree import Tree

MAIN = BranchName("main")


def test_a_session_is_found_again_by_its_key(empty_journal: Journal) -> None:
    empty_journal.add_session(a_session())
    assert empty_journal.session_by_key(a_session().key) == a_session()
    assert empty_journal.session_by_key("another.ipynb") is None
    assert empty_journal.sessions() == [a_session()]


def test_two_sessions_of_one_key_are_refused(empty_journal: Journal) -> None:
    empty_journal.add_session(a_session())
    with pytest.raises(NameTakenError, match="notebook"):
        empty_journal.add_session(a_session("session-2"))


def test_a_session_is_found_by_its_new_key_alone(started_journal: Journal) -> None:
    (renamed,) = started_journal.rekey({SESSION: "named.ipynb"})
    assert renamed == replace(a_session(), key="named.ipynb")
    assert started_journal.session_by_key("named.ipynb") == renamed
    assert started_journal.session_by_key(a_session().key) is None
    assert [it.name for it in started_journal.branches(SESSION)] == [MAIN]


def test_a_key_that_another_session_has_is_refused_and_all_keep_theirs(
    empty_journal: Journal,
) -> None:
    for session, key in (("s-1", "a"), ("s-2", "b"), ("s-3", "c")):
        empty_journal.add_session(a_session(session, key))
    with pytest.raises(NameTakenError, match="already a session 'c'"):
        empty_journal.rekey({SessionId("s-1"): "d", SessionId("s-2"): "c"})
    assert [it.key for it in empty_journal.sessions()] == ["a", "b", "c"]


def test_a_session_that_is_not_there_has_no_new_key(empty_journal: Journal) -> None:
    empty_journal.add_session(a_session())
    with pytest.raises(UnknownNameError, match="no session 's-9'"):
        empty_journal.rekey({SESSION: "named.ipynb", SessionId("s-9"): "other.ipynb"})
    assert empty_journal.sessions() == [a_session()]


def test_no_key_is_that_of_what_was_removed(empty_journal: Journal) -> None:
    empty_journal.add_session(a_session())
    with pytest.raises(UsageError, match=r"'removed:.* is no key"):
        empty_journal.rekey({SESSION: f"removed:{SESSION}"})
    assert empty_journal.sessions() == [a_session()]


def test_what_is_put_on_record_of_a_session_later_leaves_its_new_key(
    started_journal: Journal,
) -> None:
    started_journal.rekey({SESSION: "named.ipynb"})
    started_journal.put_session(replace(a_session(), current=MAIN))
    started_journal.lend(a_branch(), replace(a_session(), start=CheckpointId("base0000")))
    (found,) = started_journal.sessions()
    assert (found.key, found.current, found.start) == ("named.ipynb", None, "base0000")


def test_a_checkpoint_comes_back_as_it_was_put(started_journal: Journal) -> None:
    cost = CheckpointCost(
        stopped_ms=1.5, paused_ms=46.25, dirty_bytes=7, phases_ms={"freeze": 11.0, "copy": 2.5}
    )
    checkpoint = replace(a_checkpoint("aaaa1111", cost=cost), note="before the crash — naïve")
    started_journal.add_checkpoint(checkpoint, advance=None)
    assert started_journal.checkpoint(CheckpointId("aaaa1111")) == checkpoint


def test_a_checkpoint_moves_the_head_of_the_branch_it_advances(started_journal: Journal) -> None:
    started_journal.add_checkpoint(a_checkpoint("aaaa1111"), advance=MAIN)
    assert [branch.head for branch in started_journal.branches(SESSION)] == ["aaaa1111"]


def test_a_checkpoint_that_cannot_advance_its_branch_is_not_kept(started_journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="'forest'; there is: main"):
        started_journal.add_checkpoint(a_checkpoint("aaaa1111"), advance=BranchName("forest"))
    assert started_journal.checkpoint(CheckpointId("aaaa1111")) is None


def test_a_checkpoint_of_an_unknown_parent_is_refused(started_journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="'ffff'"):
        started_journal.add_checkpoint(a_checkpoint("aaaa1111", parent="ffff"), advance=MAIN)
    assert [branch.head for branch in started_journal.branches(SESSION)] == ["base0000"]


def test_only_a_base_has_no_parent(started_journal: Journal) -> None:
    with pytest.raises(UsageError, match="parent"):
        started_journal.add_checkpoint(replace(a_checkpoint("aaaa"), parent=None), advance=None)
    rooted = replace(a_base("base0001"), parent=CheckpointId("base0000"))
    with pytest.raises(UsageError, match="parent"):
        started_journal.add_checkpoint(rooted, advance=None)


def test_a_checkpoint_of_an_unknown_session_is_refused(started_journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="session 'session-9'; there is: session-1"):
        started_journal.add_checkpoint(a_checkpoint("aaaa", session="session-9"), advance=None)


def test_two_checkpoints_of_one_id_are_refused(started_journal: Journal) -> None:
    started_journal.add_checkpoint(a_checkpoint("aaaa1111"), advance=MAIN)
    with pytest.raises(NameTakenError, match="aaaa1111"):
        started_journal.add_checkpoint(a_checkpoint("aaaa1111", label="other"), advance=MAIN)
    assert started_journal.checkpoint(CheckpointId("aaaa1111")) == a_checkpoint("aaaa1111")


def test_the_file_itself_refuses_to_rewrite_a_checkpoint(
    started_journal: Journal, journal_path: Path
) -> None:
    connection = sqlite3.connect(journal_path)
    with pytest.raises(sqlite3.IntegrityError, match="never rewritten"):
        connection.execute("UPDATE checkpoints SET label = 'other'")
    connection.close()


def test_the_newest_base_of_a_key_is_the_base(empty_journal: Journal) -> None:
    empty_journal.add_checkpoint(a_base("base0000"), advance=None)
    empty_journal.add_checkpoint(a_base("base0001"), advance=None)
    empty_journal.add_checkpoint(a_base("base0002", key="another"), advance=None)
    assert empty_journal.base(KEY) == a_base("base0001")
    assert empty_journal.base("unheard of") is None


def test_a_session_lists_its_base_and_its_own_checkpoints_oldest_first(
    started_journal: Journal,
) -> None:
    started_journal.add_session(a_session("session-2", "other.ipynb"))
    started_journal.add_checkpoint(a_checkpoint("aaaa"), advance=MAIN)
    started_journal.add_checkpoint(a_checkpoint("cccc", session="session-2"), advance=None)
    started_journal.add_checkpoint(a_checkpoint("bbbb", "aaaa"), advance=MAIN)
    started_journal.add_checkpoint(a_base("base0001"), advance=None)
    ids = [checkpoint.id for checkpoint in started_journal.checkpoints(SESSION)]
    assert ids == ["base0000", "aaaa", "bbbb"]


def test_a_session_without_checkpoints_lists_the_base_its_branch_stands_on(
    started_journal: Journal,
) -> None:
    assert started_journal.checkpoints(SESSION) == [a_base()]


def test_branches_keep_their_order_when_one_of_them_changes(started_journal: Journal) -> None:
    started_journal.put_branches([a_branch("ridge", index=1), a_branch("forest", index=2)])
    started_journal.put_branch(a_branch(state=BranchState.PARKED))
    started_journal.put_branch(a_branch("ridge", index=1, state=BranchState.LOST))
    states = [(branch.name, branch.state) for branch in started_journal.branches(SESSION)]
    assert states == [("main", "parked"), ("ridge", "lost"), ("forest", "live")]


def test_branches_come_back_as_they_were_put(started_journal: Journal) -> None:
    records = [a_branch("ridge", parent="main", index=1), a_branch("forest", index=2)]
    started_journal.put_branches(records)
    assert started_journal.branches(SESSION) == [a_branch(), *records]


def test_of_several_branches_all_are_put_or_none(started_journal: Journal) -> None:
    with pytest.raises(UnknownNameError, match="checkpoint 'gone'"):
        started_journal.put_branches([a_branch("ridge"), a_branch("forest", "gone")])
    assert started_journal.branches(SESSION) == [a_branch()]


def test_what_came_of_a_branch_that_is_renamed_still_comes_of_it(started_journal: Journal) -> None:
    started_journal.put_branch(a_branch("ridge", parent="main"))
    started_journal.rename_branches(SESSION, {BranchName("main"): BranchName("main~1")})
    started_journal.put_branch(a_branch("main"))
    parents = {branch.name: branch.parent for branch in started_journal.branches(SESSION)}
    assert parents == {"main~1": None, "ridge": "main~1", "main": None}


def test_operations_come_back_in_the_order_they_were_done(started_journal: Journal) -> None:
    done = [an_operation("checkpoint", checkpoint="aaaa"), an_operation("fork"), an_operation()]
    for operation in done:
        started_journal.add_operation(operation)
    assert started_journal.operations(SESSION) == done
    assert started_journal.operations(SessionId("another")) == []


def test_a_checkpoint_with_descendants_is_not_removed(started_journal: Journal) -> None:
    started_journal.add_checkpoint(a_checkpoint("aaaa"), advance=MAIN)
    started_journal.add_checkpoint(a_checkpoint("bbbb", "aaaa"), advance=MAIN)
    with pytest.raises(UsageError, match="descendants: bbbb"):
        started_journal.remove_checkpoint(CheckpointId("aaaa"))


@pytest.mark.parametrize("state", [BranchState.LIVE, BranchState.PARKED, BranchState.LOST])
def test_a_checkpoint_a_branch_stands_on_is_not_removed(
    started_journal: Journal, state: BranchState
) -> None:
    started_journal.add_checkpoint(a_checkpoint("aaaa"), advance=MAIN)
    started_journal.put_branch(a_branch(head="aaaa", state=state))
    with pytest.raises(UsageError, match="stands on checkpoint 'aaaa': main"):
        started_journal.remove_checkpoint(CheckpointId("aaaa"))


def test_a_checkpoint_only_a_dropped_branch_stood_on_can_be_removed(
    started_journal: Journal,
) -> None:
    started_journal.add_checkpoint(a_checkpoint("aaaa"), advance=MAIN)
    started_journal.put_branch(a_branch(head="aaaa", state=BranchState.DROPPED))
    started_journal.remove_checkpoint(CheckpointId("aaaa"))
    assert started_journal.checkpoints(SESSION) == [a_base()]


def test_a_store_of_a_newer_schema_is_refused(journal_path: Path) -> None:
    Journal.open(journal_path).close()
    connection = sqlite3.connect(journal_path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(IncompatibleError, match="version 99"):
        Journal.open(journal_path)
    with pytest.raises(IncompatibleError, match="version 99"):
        Journal.read(journal_path)


def test_a_file_that_is_no_store_is_reported_as_damaged(journal_path: Path) -> None:
    journal_path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(DamagedError, match=r"lineage\.db"):
        Journal.open(journal_path)


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        Journal.open(tmp_path / "missing" / "lineage.db")


def test_a_reader_sees_what_the_owner_wrote_and_cannot_write(
    started_journal: Journal, journal_path: Path
) -> None:
    with Journal.read(journal_path) as reader:
        started_journal.add_checkpoint(a_checkpoint("aaaa"), advance=MAIN)
        assert [checkpoint.id for checkpoint in reader.checkpoints(SESSION)] == ["base0000", "aaaa"]
        with pytest.raises(StorageError):
            reader.add_operation(an_operation())


def test_reading_where_no_store_is_names_the_file(journal_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"lineage\.db"):
        Journal.read(journal_path)
    assert not journal_path.exists()


def test_what_was_written_is_there_after_reopening(journal_path: Path) -> None:
    with Journal.open(journal_path) as journal:
        journal.add_session(a_session())
    with Journal.open(journal_path) as journal:
        assert journal.sessions() == [a_session()]


def test_the_store_is_readable_by_its_user_alone(
    started_journal: Journal, journal_path: Path
) -> None:
    modes = {path.stat().st_mode & 0o077 for path in journal_path.parent.glob("lineage.db*")}
    assert modes == {0}


def test_a_full_disk_is_said_in_words_and_leaves_nothing_behind(started_journal: Journal) -> None:
    pages = started_journal._database._connection.execute("PRAGMA page_count").fetchone()[0]
    started_journal._database._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = replace(a_checkpoint("aaaa"), note="x" * 100_000)
    with pytest.raises(StorageError, match="full"):
        started_journal.add_checkpoint(large, advance=MAIN)
    assert started_journal.checkpoints(SESSION) == [a_base()]
    assert started_journal.branches(SESSION) == [a_branch()]
    started_journal.add_checkpoint(a_checkpoint("bbbb"), advance=MAIN)


WRITER = """
import itertools, sys
from dataclasses import replace
from pathlib import Path
from branchpoint_vmruntime.lineage.journal import Journal
from tests.unit.lineage.facts import a_checkpoint

with Journal.open(Path(sys.argv[1])) as journal:
    for number in itertools.count(1):
        parent = f"id{number - 1}" if number > 1 else "base0000"
        journal.add_checkpoint(a_checkpoint(f"id{number}", parent), advance="main")
        print(number, flush=True)
"""


def test_a_killed_writer_leaves_each_checkpoint_whole_and_the_head_on_the_last(
    started_journal: Journal, journal_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(journal_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        confirmed = [int(writer.stdout.readline()) for _ in range(20)]
        writer.kill()
    checkpoints = started_journal.checkpoints(SESSION)
    assert len(checkpoints) > confirmed[-1]
    assert [branch.head for branch in started_journal.branches(SESSION)] == [checkpoints[-1].id]
    assert len(Tree(checkpoints).path(checkpoints[-1].id)) == len(checkpoints)


def test_many_may_open_a_new_store_at_the_same_moment(journal_path: Path) -> None:
    command = [sys.executable, "-c", OPENER, str(journal_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    openers = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [opener.wait() for opener in openers] == [0, 0, 0, 0]


OPENER = """
import sys
from pathlib import Path
from branchpoint_vmruntime.lineage.journal import Journal

for number in range(20):
    Journal.open(Path(f"{sys.argv[1]}.{number}")).close()
"""
