"""Removes a session that is closed, with everything it had on the disk."""

import shutil
from dataclasses import dataclass

from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import disk_bytes
from branchpoint_vmruntime.lineage import SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import closed_session, tidying


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went with a session: how many checkpoints, and the bytes of disk given back."""

    session: SessionRecord
    checkpoints: int
    freed_bytes: int


def remove_session(home: Home, session: str) -> Removed:
    """Remove the session of that id: checkpoints, branches and files. The ledger keeps its rows.

    UnknownNameError if there is none, SessionBusyError, saying who, while somebody has it open.
    """
    if not home.database.exists():
        raise UnknownNameError("session", session, ())
    with Journal.open(home.database) as journal, tidying(home):
        record = journal.session(SessionId(session))
        if record is None:
            known = tuple(f"{it.id} ({it.key})" for it in journal.sessions())
            raise UnknownNameError("session", session, known)
        places = [
            home.session(session),
            home.flat / session,
            home.live / session,
            home.layers / session,
        ]
        with closed_session(home, session, record.key):
            freed = disk_bytes(places)
            # Forgotten first: what is left of it after a power cut is swept, and nothing is missed.
            gone = journal.remove_session(record.id)
            home.control(session).unlink(missing_ok=True)
            for place in places:
                shutil.rmtree(place, ignore_errors=True)
    return Removed(session=record, checkpoints=len(gone), freed_bytes=freed)
