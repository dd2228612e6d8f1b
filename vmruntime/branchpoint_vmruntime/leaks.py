"""What sessions left behind whose owners ended in the middle: found, and swept away.

Found by looking alone; a process is ended only if it is a machine of this home, of this user, and
the process that started it does not hold its session any more.
"""

import contextlib
import os
import select
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from branchpoint_vmruntime.command_line import escaped
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import holder, holders, tidying
from branchpoint_vmruntime.memory.dirty import memory_use
from branchpoint_vmruntime.store import LayerStore

_BOOT = "boot-"
_CONSOLE = "file,id=console,path="
_GONE_MS = 30_000


class LeakKind(StrEnum):
    """What was left behind."""

    MACHINE = "machine"
    SOCKET = "socket"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """Something whose owner has ended; `sweep` removes it. `pid` of a machine, `path` of a file.

    `bytes` are what it takes: of memory if it is a machine, else of the disk.
    """

    kind: LeakKind
    session: str
    bytes: int
    pid: int | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMachine:
    """A QEMU of a home. `session` is "boot-…" for one that makes a base checkpoint."""

    pid: int
    parent: int
    session: str


def running_machines(home: Home) -> list[RunningMachine]:
    """The QEMUs of a home that this user runs, whoever started them."""
    begins = os.fsencode(f"{_CONSOLE}{escaped(home.live)}/")
    found = [_machine(int(it.name), begins) for it in Path("/proc").iterdir() if it.name.isdigit()]
    return [machine for machine in found if machine is not None]


def leaks(home: Home) -> list[Leak]:
    """What was left behind in a home; nothing is changed, and nothing has to be there."""
    found = [_as_leak(machine) for machine in _ownerless(home, running_machines(home))]
    strays = {path: _lock_of(home, path) for path in _strays(home, _known(home))}
    held = holders(set(strays.values()))
    return found + [_found(path) for path, lock in strays.items() if lock not in held]


def sweep(home: Home, *, thorough: bool = True) -> list[Leak]:
    """Remove what was left behind; what of it is gone. Checkpoints on record stay.

    Unless `thorough`, only what stands in the way or is made again when needed: machines, their
    overlays, flat images, sockets. Otherwise also checkpoints that were never finished, and the
    files of sessions that are on no record.
    """
    if not home.live.is_dir():
        return []
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(tidying(home, wait=thorough))
        except BlockingIOError:
            # Somebody is at it.
            return []
        swept = [_end(machine, home) for machine in _ownerless(home, running_machines(home))]
        known = _known(home) if thorough else None
        removed = [_remove(path, home) for path in _strays(home, known)]
        if known is not None:
            removed += _unfinished(home, known)
    return [leak for leak in (*swept, *removed) if leak is not None]


def disk_bytes(paths: Iterable[Path]) -> int:
    """What files, and all that is in folders, take on the disk and would give back.

    Linked twice among them they count once. What is linked from elsewhere as well, as a checkpoint
    that was imported where it is already, is not theirs alone and counts for nothing.
    """
    seen: Counter[tuple[int, int]] = Counter()
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += _own_bytes(path.lstat(), seen)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                # One that goes meanwhile takes nothing.
                with contextlib.suppress(OSError):
                    total += _own_bytes(Path(folder, name).lstat(), seen)
    return total


def _own_bytes(facts: os.stat_result, seen: Counter[tuple[int, int]]) -> int:
    file = (facts.st_dev, facts.st_ino)
    seen[file] += 1
    # The links to a folder are its own subfolders.
    links = 1 if stat.S_ISDIR(facts.st_mode) else facts.st_nlink
    return facts.st_blocks * 512 if seen[file] == links else 0


def _machine(pid: int, begins: bytes) -> RunningMachine | None:
    place = Path("/proc") / str(pid)
    try:
        if place.stat().st_uid != os.getuid():
            return None
        words = (place / "cmdline").read_bytes().split(b"\0")
        console = next((word for word in words if word.startswith(begins)), None)
        if console is None:
            return None
        # "PID (NAME) STATE PARENT …", and the name may hold anything.
        parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
    session = os.fsdecode(console.removeprefix(begins).partition(b"/")[0])
    return RunningMachine(pid=pid, parent=parent, session=session)


def _ownerless(home: Home, machines: list[RunningMachine]) -> list[RunningMachine]:
    # Looked at after the machines: an owner holds its session before it starts one.
    held = holders({_lock(home, it.session) for it in machines})
    return [it for it in machines if held.get(_lock(home, it.session)) != it.parent]


def _known(home: Home) -> set[str] | None:
    """The sessions on record; None without a record: then nothing can be told to be on none."""
    with contextlib.suppress(UnknownNameError), Journal.read(home.database) as journal:
        # Of one that was removed, what others stand on is no leak.
        return {str(it.id) for it in (*journal.sessions(), *journal.removed_sessions())}
    return None


def _strays(home: Home, known: set[str] | None) -> list[Path]:
    places = [*_within(home.live), *_within(home.flat)]
    places += [path for path in _within(home.run) if path.suffix == ".sock"]
    if known is not None:
        kept = [*_within(home.layers), *_within(home.root / "sessions")]
        places += [it for it in kept if it.name not in known and it != home.layers / "base"]
    return [path for path in places if not path.name.startswith(".")]


def _within(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _lock_of(home: Home, path: Path) -> Path:
    return _lock(home, path.name.removesuffix(".sock"))


def _lock(home: Home, session: str) -> Path:
    return home.layers if session.startswith(_BOOT) else home.layers / session


@contextmanager
def _closed(folder: Path) -> Generator[None]:
    # What has no folder of layers has no owner: that is made first.
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            stack.enter_context(locked(folder, wait=False))
        yield


def _remove(path: Path, home: Home) -> Leak | None:
    with contextlib.suppress(BlockingIOError), _closed(_lock_of(home, path)):
        found = _found(path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return None if os.path.lexists(path) else found
    return None


def _unfinished(home: Home, known: set[str]) -> list[Leak]:
    """Remove the checkpoints of closed sessions, and the bases, that are on no record."""
    swept: list[Leak] = []
    with Journal.read(home.database) as journal:
        for name in (*sorted(known), "base"):
            folder = home.layers / name
            lock = home.layers if name == "base" else folder
            with contextlib.suppress(BlockingIOError, FileNotFoundError), locked(lock, wait=False):
                # Asked once it is held: nobody puts one on record after that.
                there = {CheckpointId(path.name) for path in folder.iterdir()}
                on_record = {it for it in there if journal.checkpoint(it) is not None}
                if there - on_record:
                    found = [_found(folder / it) for it in sorted(there - on_record)]
                    LayerStore(folder).sweep(on_record)
                    swept += [leak for leak in found if leak.path and not leak.path.exists()]
                # What an owner was just writing of its edge; it is written again when needed.
                for half in sorted(home.session(name).glob("*.part")):
                    swept.append(_found(half))
                    half.unlink(missing_ok=True)
    return swept


def _can_be_seen(folder: Path) -> bool:
    """Whether it is known who holds a folder, if anybody does.

    It is not where the system lists no locks, or those of other containers.
    """
    if holder(folder) is not None:
        return True
    try:
        with _closed(folder):
            return True
    except BlockingIOError:
        return False


def _found(path: Path) -> Leak:
    return Leak(
        kind=LeakKind.SOCKET if path.suffix == ".sock" else LeakKind.FOLDER,
        session=path.name.removesuffix(".sock"),
        bytes=disk_bytes([path]),
        path=path,
    )


def _as_leak(machine: RunningMachine) -> Leak:
    return Leak(
        kind=LeakKind.MACHINE,
        session=machine.session,
        bytes=own_memory(machine.pid),
        pid=machine.pid,
    )


def own_memory(pid: int) -> int:
    """The memory that a process has for itself, in bytes; 0 once it has gone."""
    try:
        own, _ = memory_use(pid)
    except OSError:
        return 0
    return own


def _end(machine: RunningMachine, home: Home) -> Leak | None:
    """End a machine; None if it was not to be, or is not gone in time."""
    if not _can_be_seen(_lock(home, machine.session)):
        return None
    try:
        process = os.pidfd_open(machine.pid)
    except ProcessLookupError:
        return None
    try:
        # Held by its descriptor now, so that no other can have its number: is it still the one?
        if machine not in running_machines(home):
            return None
        if holder(_lock(home, machine.session)) == machine.parent:
            return None
        leak = _as_leak(machine)
        signal.pidfd_send_signal(process, signal.SIGKILL)
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        return leak if waiting.poll(_GONE_MS) else None
    except ProcessLookupError:
        return None
    finally:
        os.close(process)
