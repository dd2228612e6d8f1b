"""Who has what open: locks on folders, which the kernel lets go of when their process ends.

The owner of a session holds the folder of its layers. Whoever tidies up after sessions that are
closed holds one for a moment, and the folder of live machines for as long as that goes on, so that
nobody takes it for an owner.
"""

import contextlib
import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.errors import SessionBusyError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home

_LOCKS = Path("/proc/locks")
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
    try:
        wanted = folder.stat()
        inode = str(wanted.st_ino)
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    # "1: FLOCK  ADVISORY  WRITE 201 fe:00:2162707 0 EOF"; of one that waits the second is "->".
    for line in lines:
        words = line.split()
        if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
            pid = int(words[4])
            # Not by the number of the device: of some file systems `stat` tells another.
            if _has_open(pid, folder, wanted):
                return pid
    return None


def owner_kind(pid: int) -> OwnerKind:
    """What a process that has a session open is, by what it was started as."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return OwnerKind.SCRIPT
    modules = [after for before, after in itertools.pairwise(words) if before == "-m"]
    return next((_MODULES[name] for name in modules if name in _MODULES), OwnerKind.SCRIPT)


def _has_open(pid: int, folder: Path, wanted: os.stat_result) -> bool:
    try:
        fds = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for fd in fds:
        with contextlib.suppress(OSError):
            # The name first: to look at what a process has open may wait, at a file name it cannot.
            if fd.readlink().name == folder.name and os.path.samestat(fd.stat(), wanted):
                return True
    return False
