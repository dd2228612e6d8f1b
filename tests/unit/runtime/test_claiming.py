"""A session is open in one process; who finds it open hears in which, or opens one beside it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from tests.support.live_kernel import wait_until
from tests.unit.runtime.leftovers import CLOSED, KEYS, OPEN, a_home, with_sessions

from branchpoint_vmruntime.claiming import claim
from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.errors import SessionBusyError, StorageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import closed_session, holder, holders, owner_kind, tidying
from branchpoint_vmruntime.removal import remove_session

_HOLDS = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = a_home(tmp_path)
    with_sessions(home)
    return home


def times_open(folder: Path) -> int:
    """How often this process has it open."""
    found = 0
    for place in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += place.readlink() == folder
    return found


@contextmanager
def journal_of(home: Home) -> Generator[Journal]:
    with Journal.open(home.database) as journal:
        yield journal


@contextmanager
def held_by_another(folder: Path, *before: str) -> Generator[int]:
    """A process that holds a folder, started with those words before the rest."""
    command = [sys.executable, *before, "-c", _HOLDS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"holds\n"
        yield process.pid
        process.kill()


def test_a_session_is_found_again_by_its_key_or_made(home: Home) -> None:
    with journal_of(home) as journal:
        with claim(home, journal, KEYS[CLOSED]) as record:
            assert record.id == CLOSED
        with claim(home, journal, "new") as made:
            assert made.id not in KEYS
            assert holder(home.layers / made.id) == os.getpid()
        assert holder(home.layers / made.id) is None


def test_beside_one_that_is_open_another_is_opened(home: Home) -> None:
    with journal_of(home) as journal, held_by_another(home.layers / OPEN):
        with claim(home, journal, KEYS[OPEN]) as record:
            assert record.key == f"{KEYS[OPEN]} (2)"
        with (
            pytest.raises(SessionBusyError),
            claim(home, journal, KEYS[OPEN], alone=True),
        ):
            pass
        assert [it.key for it in journal.sessions()][2:] == [f"{KEYS[OPEN]} (2)"]


def test_a_notebook_at_a_path_that_is_not_utf_8_has_a_session_like_any(home: Home) -> None:
    path = os.fsdecode(b"/notes/\xfc.ipynb")
    with journal_of(home) as journal:
        with claim(home, journal, path) as made:
            assert made.key == r"/notes/\udcfc.ipynb"
        with claim(home, journal, path) as again:
            assert again.id == made.id


def test_the_refusal_says_which_process_has_it(home: Home) -> None:
    with journal_of(home) as journal, held_by_another(home.layers / OPEN) as pid:
        with (
            pytest.raises(SessionBusyError, match=f"process {pid}") as refused,
            claim(home, journal, KEYS[OPEN], alone=True),
        ):
            pass
        assert "'open.ipynb'" in str(refused.value)
        assert refused.value.hint


def test_who_tidies_up_is_not_taken_for_an_owner(home: Home) -> None:
    claimed: list[str] = []

    def open_it() -> None:
        with journal_of(home) as journal, claim(home, journal, KEYS[CLOSED], alone=True) as record:
            claimed.append(record.id)

    with tidying(home), closed_session(home, CLOSED, KEYS[CLOSED]):
        opening = Thread(target=open_it)
        opening.start()
        opening.join(timeout=0.2)
        assert claimed == []
    opening.join()
    assert claimed == [CLOSED]


def test_one_that_is_removed_while_it_is_opened_is_made_anew(home: Home) -> None:
    with journal_of(home) as journal:
        find = journal.session_by_key
        removed = False

        def found_just_before_it_goes(key: str) -> object:
            nonlocal removed
            record = find(key)
            if not removed:
                removed = True
                remove_session(home, CLOSED)
            return record

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "session_by_key", found_just_before_it_goes)
            with claim(home, journal, KEYS[CLOSED]) as record:
                assert record.id != CLOSED
                assert journal.session(record.id) == record
        assert not (home.layers / CLOSED).exists()


def test_a_folder_that_was_removed_by_who_held_it_is_not_held(home: Home) -> None:
    folder = home.layers / CLOSED
    missing: list[FileNotFoundError] = []

    def hold_it_next() -> None:
        try:
            with locked(folder, wait=True):
                pass
        except FileNotFoundError as error:
            missing.append(error)

    for made_anew in (False, True):
        folder.mkdir(exist_ok=True)
        with locked(folder, wait=False):
            waiting = Thread(target=hold_it_next)
            waiting.start()
            # What it waits for is the one that goes, once it has that open.
            assert wait_until(lambda: times_open(folder) == 2)
            shutil.rmtree(folder)
            if made_anew:
                folder.mkdir()
        waiting.join()
    assert [error.filename for error in missing] == [str(folder)] * 2


def test_who_holds_a_folder_is_told_without_disturbing_it(home: Home) -> None:
    folder = home.layers / OPEN
    assert holder(folder) is None
    assert holder(home.layers / "none") is None
    with held_by_another(folder) as pid:
        assert holder(folder) == pid
        assert holder(home.layers / CLOSED) is None
        with pytest.raises(BlockingIOError), locked(folder, wait=False):
            pass


def test_who_holds_a_folder_is_told_though_a_long_list_of_locks_leaves_it_out(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "locks"
    line = "{}: POSIX  ADVISORY  READ 1 fe:00:{} 128 128\n"
    others.write_text("".join(line.format(number, number) for number in range(1, 200)))
    monkeypatch.setattr("branchpoint_vmruntime.locks._LOCKS", others)
    folder = home.layers / OPEN
    with held_by_another(folder) as pid, locked(home.layers / CLOSED, wait=False):
        assert holders([folder, home.layers / CLOSED, home.layers]) == {
            folder: pid,
            home.layers / CLOSED: os.getpid(),
        }
    assert holder(folder) is None


def test_who_only_has_a_folder_open_does_not_hold_it(home: Home) -> None:
    fd = os.open(home.layers / OPEN, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert holder(home.layers / OPEN) is None
        with held_by_another(home.layers / OPEN) as pid:
            assert holder(home.layers / OPEN) == pid
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), OwnerKind.SCRIPT),
        (("-P", "-m", "branchpoint_kernel", "-f", "a.json"), OwnerKind.KERNEL),
        (("-P", "-m", "branchpoint_vmruntime.owner"), OwnerKind.OWNER),
        (("-m", "other"), OwnerKind.SCRIPT),
    ],
)
def test_what_a_process_is_is_told_by_what_it_was_started_as(
    words: tuple[str, ...], kind: OwnerKind
) -> None:
    command = [sys.executable, "-c", "import sys; print(); sys.stdin.read()", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert owner_kind(process.pid) is kind
        process.kill()


def test_of_a_process_that_has_gone_nothing_is_known() -> None:
    assert owner_kind(1 << 30) is OwnerKind.SCRIPT


def test_a_session_whose_folder_cannot_be_made_is_refused_in_words(home: Home) -> None:
    shutil.rmtree(home.layers)
    home.layers.write_text("a file, where a folder should be")
    with (
        Journal.open(home.database) as journal,
        pytest.raises(StorageError, match="'new' cannot be opened"),
        claim(home, journal, "new"),
    ):
        pass
