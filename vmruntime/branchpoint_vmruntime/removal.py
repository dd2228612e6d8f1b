"""Removes a session that is closed, with everything it had on the disk."""

from dataclasses import dataclass

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord


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
    raise NotImplementedError(home, session)
