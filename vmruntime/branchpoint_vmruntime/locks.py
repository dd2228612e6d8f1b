"""Who has what open: locks on folders, which the kernel lets go of when their process ends.

The owner of a session holds the folder of its layers. Whoever tidies up after sessions that are
closed holds one for a moment, and the folder of live machines for as long as that goes on, so that
nobody takes it for an owner.
"""

import contextlib
import itertools
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.errors import SessionBusyError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home

_LOCKS = Path("/proc/locks")
_PROCESSES = Path("/proc")
_MODULES = {
    "branchpoint_kernel": OwnerKind.KERNEL,
    "branchpoint_vmruntime.owner": OwnerKind.OWNER,
}
_WORDS = {
    OwnerKind.KERNEL: "a notebook's kernel",
    OwnerKind.OWNER: "a process of its own",
    OwnerKind.SCRIPT: "a script or a command",
}


@contextmanager
def tidying(home: Home, *, wait: bool = True) -> Generator[None]:
    """Around whatever holds the folders of closed sessions for a moment, to tidy up."""
    with locked(home.live, wait=wait):
        yield


def wait_for_tidying(home: Home) -> None:
    """Return once nobody tidies up: who holds a session's folder then is its owner."""
    with locked(home.live, wait=True):
        pass


@contextmanager
def closed_session(home: Home, session: str, key: str) -> Generator[None]:
    """Hold a session that nobody has open; SessionBusyError, saying who has, if somebody does.

    To be used within `tidying`.
    """
    folder = home.layers / session
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, wait=False))
        except BlockingIOError as error:
            raise in_use(folder, key) from error
        yield


def in_use(folder: Path, key: str) -> SessionBusyError:
    """The error that says who holds the folder of a session's layers."""
    pid = holder(folder)
    if pid is None:
        return SessionBusyError(f"session {key!r} is open elsewhere", hint="close it there first")
    kind = owner_kind(pid)
    hint = (
        "`branchpoint ls` lists what is open"
        if kind is OwnerKind.OWNER
        else "close it there first: the session's checkpoints stay"
    )
    return SessionBusyError(
        f"session {key!r} is open: {_WORDS[kind]} has it, process {pid}", hint=hint
    )


def holder(folder: Path) -> int | None:
    """The process that holds a folder; None if none does, or none that can be seen from here.

    Looking disturbs nobody: the lock itself is not tried.
    """
    return holders([folder]).get(folder)


def holders(folders: Iterable[Path]) -> dict[Path, int]:
    """The processes that hold folders, each as `holder` has it; those without one are left out."""
    wanted: dict[Path, os.stat_result] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            wanted[folder] = folder.stat()
    if not wanted:
        return {}
    listed, whole = _listed()
    numbers = {facts.st_ino for facts in wanted.values()}
    found = _held_by({pid for pid, number in listed if number in numbers}, wanted)
    missing = {folder: facts for folder, facts in wanted.items() if folder not in found}
    if missing and not whole:
        found |= _held_by(_processes(), missing)
    return found


def owner_kind(pid: int) -> OwnerKind:
    """What a process that has a session open is, by what it was started as."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return OwnerKind.SCRIPT
    modules = [after for before, after in itertools.pairwise(words) if before == "-m"]
    return next((_MODULES[name] for name in modules if name in _MODULES), OwnerKind.SCRIPT)


def _listed() -> tuple[list[tuple[int, int]], bool]:
    """The processes with a lock and the numbers of the files; whether none can be missing.

    The system tells a page of them at a time and goes on by their position, so that one that is let
    go of meanwhile hides another. In half a page are all of them: what is left out for want of room
    would have to be longer than the other half, which takes tens that wait for one lock.
    """
    try:
        text = _LOCKS.read_text()
    except OSError:
        return [], False
    # "1: FLOCK  ADVISORY  WRITE 201 fe:00:2162707 0 EOF"; of one that waits the second is "->".
    lines = [line.split() for line in text.splitlines()]
    found = [
        # Not by the number of the device: of some file systems `stat` tells another.
        (int(words[4]), int(words[5].rpartition(":")[2]))
        for words in lines
        if words[1] == "FLOCK"
    ]
    return found, len(text) <= os.sysconf("SC_PAGE_SIZE") // 2


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(it.name) for it in _PROCESSES.iterdir() if it.name.isdigit()]
    return []


def _held_by(pids: Iterable[int], wanted: Mapping[Path, os.stat_result]) -> dict[Path, int]:
    """Which of the folders those processes hold, as the system tells of what each has open.

    That lists by process and descriptor, and leaves nothing out that stays as it is.
    """
    names = {folder.name for folder in wanted}
    found: dict[Path, int] = {}
    for pid in pids:
        for facts in _held(pid, names):
            found |= {it: pid for it, its in wanted.items() if os.path.samestat(facts, its)}
    return found


def _held(pid: int, names: set[str]) -> Generator[os.stat_result]:
    """What a process holds of what it has open by one of the names."""
    with contextlib.ExitStack() as stack:
        try:
            fds = os.open(f"{_PROCESSES}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, fds)
            there = [entry.name for entry in os.scandir(fds)]
        except OSError:
            return
        for fd in there:
            with contextlib.suppress(OSError):
                # The name first: to look at what is open may wait, at a file name it cannot.
                link = os.readlink(fd, dir_fd=fds)
                if link.rpartition("/")[2] in names and _is_held(pid, fd):
                    yield os.stat(fd, dir_fd=fds)


def _is_held(pid: int, fd: str) -> bool:
    for line in Path(f"{_PROCESSES}/{pid}/fdinfo/{fd}").read_text().splitlines():
        # As in the list. One that was inherited is another's.
        match line.split():
            case ["lock:", _, "FLOCK", _, _, by, *_] if by == str(pid):
                return True
            case _:
                pass
    return False
