"""What owners that were killed leave is found and swept; what somebody has open is left alone."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.unit.runtime.leftovers import (
    CLOSED,
    OPEN,
    a_file,
    a_home,
    is_running,
    left_by_a_killed_owner,
    machine,
    with_sessions,
)

from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import Leak, LeakKind, leaks, running_machines, sweep
from branchpoint_vmruntime.locks import tidying


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return a_home(tmp_path)


def paths(found: list[Leak]) -> set[Path]:
    return {leak.path for leak in found if leak.path is not None}


def everything(home: Home) -> set[Path]:
    """All there is, but for what SQLite puts beside its files."""
    return {path for path in home.root.rglob("*") if path.suffix not in (".db-wal", ".db-shm")}


def test_in_a_home_in_which_nothing_was_opened_nothing_is_found(tmp_path: Path) -> None:
    nowhere = Home(tmp_path / "none", tmp_path / "none" / "run")
    assert leaks(nowhere) == []
    assert sweep(nowhere) == []
    assert not nowhere.root.exists()


def test_what_a_killed_owner_left_is_found_and_nothing_is_changed(home: Home) -> None:
    with_sessions(home)
    left = left_by_a_killed_owner(home, CLOSED)
    before = everything(home)
    found = leaks(home)
    assert paths(found) == left
    assert {leak.session for leak in found} == {CLOSED}
    assert {leak.path for leak in found if leak.kind is LeakKind.SOCKET} == {home.control(CLOSED)}
    assert sum(leak.bytes for leak in found) >= 2 * 8192
    assert everything(home) == before


def test_it_is_swept_and_checkpoints_stay(home: Home) -> None:
    with_sessions(home)
    before = everything(home)
    left = left_by_a_killed_owner(home, CLOSED)
    assert paths(sweep(home)) == left
    assert everything(home) == before
    assert leaks(home) == []


def test_what_somebody_has_open_is_left_alone(home: Home) -> None:
    with_sessions(home)
    left_by_a_killed_owner(home, OPEN)
    before = everything(home)
    with locked(home.layers / OPEN, wait=False):
        assert leaks(home) == []
        assert sweep(home) == []
    assert everything(home) == before


def test_a_machine_whose_owner_has_gone_is_ended(home: Home) -> None:
    with_sessions(home)
    with machine(home, CLOSED, orphaned=True) as pid:
        [found] = leaks(home)
        assert (found.kind, found.session, found.pid) == (LeakKind.MACHINE, CLOSED, pid)
        assert found.bytes > 0
        [ended] = sweep(home, thorough=False)
        assert ended.pid == pid
        assert not is_running(pid)


def _removes_nothing(_folder: Path, *, ignore_errors: bool) -> None:
    """Stands in for `shutil.rmtree` on a disk that fails."""


def test_what_cannot_be_removed_is_not_told_as_swept(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_sessions(home)
    left = left_by_a_killed_owner(home, CLOSED)
    unfinished = a_file(home.layers / CLOSED / "half.part" / "memory").parent
    with monkeypatch.context() as failing:
        failing.setattr("shutil.rmtree", _removes_nothing)
        assert paths(sweep(home)) == {home.control(CLOSED)}
    assert paths(sweep(home)) == {*left, unfinished} - {home.control(CLOSED)}


def _tells_nobody(_process: int, _signal: int) -> None:
    """Stands in for `signal.pidfd_send_signal`."""


def test_a_machine_that_does_not_go_is_not_told_as_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchpoint_vmruntime.leaks._GONE_MS", 1)
    with_sessions(home)
    with machine(home, CLOSED, orphaned=True) as pid:
        with monkeypatch.context() as kept:
            kept.setattr("signal.pidfd_send_signal", _tells_nobody)
            assert sweep(home, thorough=False) == []
        assert is_running(pid)


def test_a_machine_of_an_earlier_owner_is_ended_though_another_has_the_session_now(
    home: Home,
) -> None:
    with_sessions(home)
    with locked(home.layers / OPEN, wait=False), machine(home, OPEN, orphaned=True) as pid:
        assert [leak.pid for leak in sweep(home, thorough=False)] == [pid]


def test_a_machine_of_whoever_has_its_session_is_left_alone(home: Home) -> None:
    with_sessions(home)
    with locked(home.layers / OPEN, wait=False), machine(home, OPEN, orphaned=False) as pid:
        assert leaks(home) == []
        assert sweep(home) == []
        assert is_running(pid)


def _seen_by_nobody(folders: Iterable[Path]) -> dict[Path, int]:
    return {}


def test_a_machine_whose_owner_is_seen_only_at_the_last_look_is_left_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_sessions(home)
    monkeypatch.setattr("branchpoint_vmruntime.leaks.holders", _seen_by_nobody)
    with locked(home.layers / OPEN, wait=False), machine(home, OPEN, orphaned=False) as pid:
        assert sweep(home, thorough=False) == []
        assert is_running(pid)


def test_a_machine_is_left_alone_where_the_system_does_not_tell_who_holds_its_session(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in ("_LOCKS", "_PROCESSES"):
        monkeypatch.setattr(f"branchpoint_vmruntime.locks.{place}", tmp_path / "none")
    with_sessions(home)
    with machine(home, OPEN, orphaned=True) as pid:
        with locked(home.layers / OPEN, wait=False):
            assert sweep(home) == []
            assert is_running(pid)
        assert [leak.pid for leak in sweep(home)] == [pid]


def test_a_machine_of_another_home_is_left_alone(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other", tmp_path / "other" / "run")
    other.ensure()
    with machine(other, CLOSED, orphaned=True) as pid:
        assert leaks(home) == []
        assert sweep(home) == []
        assert is_running(pid)


def test_a_machine_that_makes_a_base_belongs_to_whoever_holds_the_layers(home: Home) -> None:
    folder = a_file(home.live / "boot-1a2b" / "console.log").parent
    with locked(home.layers, wait=False), machine(home, folder.name, orphaned=False):
        assert leaks(home) == []
    assert paths(sweep(home)) == {folder}


def test_what_was_never_finished_is_swept_when_that_is_asked_for(home: Home) -> None:
    with_sessions(home)
    before = everything(home)
    part = a_file(home.layers / CLOSED / "c0ffee000000.part" / "memory").parent
    base = a_file(home.layers / "base" / "feedfeed0000.part" / "memory").parent
    assert sweep(home, thorough=False) == []
    assert paths(sweep(home)) == {part, base}
    assert everything(home) == before


def test_the_files_of_a_session_on_no_record_are_swept_when_that_is_asked_for(home: Home) -> None:
    with_sessions(home)
    layers = a_file(home.layers / "f0f0f0f0f0f0" / "c1" / "memory").parent.parent
    edge = a_file(home.session("f0f0f0f0f0f0") / "authority.pem").parent
    assert paths(leaks(home)) == {layers, edge}
    assert sweep(home, thorough=False) == []
    assert paths(sweep(home)) == {layers, edge}
    assert not layers.exists()


def test_without_a_record_of_sessions_no_checkpoint_is_taken_for_a_stray(home: Home) -> None:
    kept = a_file(home.layers / CLOSED / "c1" / "memory")
    assert leaks(home) == []
    assert sweep(home) == []
    assert kept.exists()


def test_two_who_sweep_do_not_meet(home: Home) -> None:
    with_sessions(home)
    left_by_a_killed_owner(home, CLOSED)
    with tidying(home):
        assert sweep(home, thorough=False) == []
    assert sweep(home, thorough=False)


def test_a_process_that_only_names_a_folder_of_the_home_is_no_machine(home: Home) -> None:
    with_sessions(home)
    named = str(home.live / CLOSED / "main" / "console.log")
    with subprocess.Popen(
        [sys.executable, "-c", "print(); input()", named],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as editor:
        assert editor.stdout
        editor.stdout.readline()
        assert running_machines(home) == []
        editor.kill()


def test_what_a_killed_owner_was_writing_of_its_edge_goes_and_what_it_wrote_stays(
    home: Home,
) -> None:
    with_sessions(home)
    half = a_file(home.session(CLOSED) / "store.json.part")
    assert paths(sweep(home)) == {half}
    assert (home.session(CLOSED) / "authority.pem").exists()
