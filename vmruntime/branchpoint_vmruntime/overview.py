"""All sessions of a home at one glance, open or not, and what was left behind by those that ended.

Read from the books, the disk and /proc: no owner is asked, and nothing is made or changed.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentSoFar:
    """What a session has had from outside. Money in millionths of whatever the prices are in."""

    requests: int = 0
    refused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """One session. `owner` is who has it open, None if it is closed.

    `machines` are its living machines, `own_bytes` and `shared_bytes` the host memory they take,
    `disk_bytes` what its files take on the disk and would give back.
    """

    id: str
    key: str
    owner: OpenSession | None
    created_at: datetime
    current: str | None
    branches: tuple[BranchRecord, ...]
    checkpoints: int
    newest_at: datetime | None
    machines: int
    own_bytes: int
    shared_bytes: int
    disk_bytes: int
    spent: SpentSoFar

    @property
    def open(self) -> bool:
        """Whether somebody has it open."""
        return self.owner is not None


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
class Overview:
    """Every session of a home, oldest first, and what was left behind."""

    sessions: tuple[SessionOverview, ...]
    leaks: tuple[Leak, ...]


def overview(home: Home) -> Overview:
    """Look at a home. One in which nothing was ever opened has no sessions."""
    raise NotImplementedError(home)
