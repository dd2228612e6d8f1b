"""Faults of the disk, of machines and of this process itself, at a chosen step of what it does.

A step is whatever changes something beneath a folder, or begins or ends a transaction; where it is
reading that fails, whatever reads a file of a checkpoint. What QEMU itself reads is none.
"""

import errno
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

# The step at which what a transaction wrote comes to be on record.
RECORDED = "sqlite COMMIT"
_REMOVALS = frozenset({"os.remove", "os.rmdir", "os.truncate"})
# By event, the places of paths among what it tells, each with that of the folder it is relative to.
_PATHS = {
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
}
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Kind(StrEnum):
    """What happens at the step: this process, or its machines, are killed; or the disk fails."""

    KILL = "kill"
    QEMU = "qemu"
    # From that step on, until it is over; what removes something still works.
    FULL = "full"
    # At that step alone.
    EIO = "eio"
    # From that step on, whatever it is.
    DEAD = "dead"
    # At that step alone, of those that read what was saved.
    UNREADABLE = "unreadable"


class Faults:
    """Watches this process, for as long as it lives, and has the step fail that it is armed for.

    `kill_machines` is called in the thread of the step, and so is `last_words`, before this process
    is killed.
    """

    def __init__(
        self,
        *folders: Path,
        kill_machines: Callable[[], None],
        last_words: Callable[["Faults"], None],
    ) -> None:
        self._folders = tuple(f"{folder.resolve()}/" for folder in folders)
        self._kill_machines = kill_machines
        self._last_words = last_words
        self._lock = threading.Lock()
        self._armed: tuple[Kind, int | str] | None = None
        self._touched_before: set[tuple[str, int, int]] = set()
        self.steps: list[str] = []
        self.struck = ""

    def install(self) -> None:
        """Begin to watch. An audit hook is never taken away again."""
        sys.addaudithook(self._hear)
        self._wrap("fsync", first_only=False, writes=0)
        self._wrap("pwrite", first_only=True, writes=0)
        self._wrap("copy_file_range", first_only=True, reads=0, writes=1)
        self._wrap("preadv", first_only=True, reads=0)
        connect, faults = sqlite3.connect, self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                if sql.startswith(("BEGIN", "COMMIT")):
                    faults.step(f"sqlite {sql}")
                return super().execute(sql, *parameters)

        def connect_watched(*arguments: Any, **named: Any) -> sqlite3.Connection:
            return connect(*arguments, factory=Connection, **named)

        sqlite3.connect = connect_watched

    def arm(self, kind: Kind, at: int | str) -> None:
        """Have the step of that number, from 1, fail, or the first that has this in its name."""
        self.steps, self.struck = [], ""
        self._touched_before.clear()
        self._armed = (kind, at)

    def disarm(self) -> None:
        """Let everything through again."""
        self._armed = None

    def step(self, what: str, *, reads: bool = False) -> None:
        """Note a step; it may end this process, or raise what the disk would."""
        armed = self._armed
        if armed is None or reads is not (armed[0] is Kind.UNREADABLE):
            return
        with self._lock:
            if self._armed is not armed:
                # Disarmed meanwhile: a thread in the background is nobody's attempt.
                return
            self.steps.append(what)
            kind, at = armed
            here = at in what if isinstance(at, str) else len(self.steps) == at
            later = bool(self.struck) and kind in (Kind.FULL, Kind.DEAD)
            if not later and (self.struck or not here):
                return
            if kind is Kind.FULL and what.split(" ")[0] in _REMOVALS:
                # A step all the same: what comes after it fails.
                self.struck = self.struck or what
                return
            self.struck = self.struck or what
        if kind is Kind.KILL:
            self._last_words(self)
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind is Kind.QEMU:
            self._kill_machines()
        else:
            raise _error(kind, what)

    def _hear(self, event: str, told: tuple[Any, ...]) -> None:
        if self._armed is None:
            return
        if event == "open":
            path, _, flags = told
            if isinstance(path, str | bytes):
                self._touched(event, [os.fsdecode(path)], reads=not flags & _CHANGES)
        elif event in _PATHS:
            self._touched(event, [_full(told, *places) for places in _PATHS[event]])

    def _touched(self, event: str, paths: list[str], *, reads: bool = False) -> None:
        if reads:
            paths = [path for path in paths if "/layers/" in path]
        if any(f"{os.path.abspath(path)}/".startswith(self._folders) for path in paths):  # noqa: PTH100
            self.step(f"{event} {' '.join(paths)}", reads=reads)

    def _wrap(
        self, name: str, *, first_only: bool, reads: int | None = None, writes: int | None = None
    ) -> None:
        """Have a function noted; `reads` and `writes` are the places of its descriptors."""
        real = getattr(os, name)
        both = ((reads, True), (writes, False))
        places = [(place, is_read) for place, is_read in both if place is not None]

        def watched(*arguments: Any, **named: Any) -> Any:
            for place, is_read in places:
                key = (name, place, arguments[place])
                if self._armed is not None and not (first_only and key in self._touched_before):
                    self._touched_before.add(key)
                    self._touched(f"os.{name}", [_of_descriptor(key[-1])], reads=is_read)
            return real(*arguments, **named)

        setattr(os, name, watched)


def _full(told: tuple[Any, ...], place: int, folder: int | None) -> str:
    path = told[place]
    if isinstance(path, int):
        return _of_descriptor(path)
    below = told[folder] if folder is not None else -1
    path = os.fsdecode(path)
    return path if below is None or below < 0 else f"{_of_descriptor(below)}/{path}"


def _of_descriptor(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def _error(kind: Kind, what: str) -> Exception:
    if what.startswith("sqlite"):
        failed = sqlite3.OperationalError("the disk fails, as it was told to")
        failed.sqlite_errorcode = sqlite3.SQLITE_FULL if kind is Kind.FULL else sqlite3.SQLITE_IOERR
        return failed
    if kind is Kind.UNREADABLE:
        event, _, path = what.partition(" ")
        # Of a file that is open the system does not say which it was.
        return OSError(errno.EIO, os.strerror(errno.EIO), *([path] if event == "open" else []))
    number = errno.ENOSPC if kind is Kind.FULL else errno.EIO
    return OSError(number, os.strerror(number), what)
