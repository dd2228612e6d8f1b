"""What a session has on record, on the disk and running, as anybody finds it who only looks."""

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import running_machines
from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

_PATIENCE_MS = 240_000


@dataclass(frozen=True, kw_only=True)
class OnRecord:
    """A session in the lineage store."""

    session: SessionRecord
    branches: dict[str, BranchRecord]
    checkpoints: dict[str, Checkpoint]
    pins: set[str]


def on_record(home: Home, session: str) -> OnRecord:
    """Read it; nobody who has it open is asked."""
    with Journal.read(home.database) as journal:
        record = journal.session(SessionId(session))
        assert record is not None
        checkpoints = {str(it.id): it for it in journal.checkpoints(record.id)}
        return OnRecord(
            session=record,
            branches={str(it.name): it for it in journal.branches(record.id)},
            checkpoints=checkpoints,
            pins={str(id_) for id_ in journal.pins()} & set(checkpoints),
        )


def layers(home: Home, session: str) -> set[str]:
    """The names of what is in the folder of its checkpoints."""
    return _names(home.layers / session)


def overlays(home: Home, session: str) -> set[str]:
    """The folders of its living machines."""
    return _names(home.live / session)


def flat_images(home: Home, session: str) -> set[str]:
    """The checkpoints that flat images are there of; one that is being made as it is called."""
    return {name.removesuffix(".mem") for name in _names(home.flat / session)}


def machines(home: Home, session: str) -> list[int]:
    """Its QEMUs, the oldest first, whoever started them."""
    found = [it.pid for it in running_machines(home) if it.session == session]
    return sorted(found, key=_started)


def owners(home: Home) -> list[int]:
    """The processes of their own that have sessions of that home open."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                words = (place / "cmdline").read_bytes()
                if b"branchpoint_vmruntime.owner" in words and os.fsencode(home.root) in words:
                    found.append(int(place.name))
    return found


def end(pid: int, number: int) -> None:
    """Send a signal, and wait until that process has gone; nothing if it has already.

    All of it: what it holds is held until the last of its threads has ended, and by then it has
    long been called a zombie.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        assert ended.poll(_PATIENCE_MS), f"process {pid} did not end"
    finally:
        os.close(process)


def _names(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _started(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0
