"""What a lineage is made of: sessions, checkpoints, branches, operations. Facts, no behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

SessionId = NewType("SessionId", str)
CheckpointId = NewType("CheckpointId", str)
BranchName = NewType("BranchName", str)


class CheckpointKind(StrEnum):
    """Why a checkpoint was taken."""

    BASE = "base"
    USER = "user"
    AUTO = "auto"
    SAFETY = "safety"
    PARKED = "parked"
    PAUSED = "paused"
    FORK_POINT = "fork-point"


class BranchState(StrEnum):
    """What has become of a branch.

    Paused, it was saved at its last moment and gets a machine again when something is wanted of it;
    parked, as soon as it is switched to. What is lent carries on in a session of its own, that of
    another notebook. What was lost ended without being saved.
    """

    LIVE = "live"
    PAUSED = "paused"
    PARKED = "parked"
    LENT = "lent"
    LOST = "lost"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """What a checkpoint cost. Times in milliseconds, sizes in bytes.

    `stopped_ms` is the window in which the vCPUs stood still; `paused_ms` the longer one in which
    the user's processes did (from freeze to thaw). `memory_bytes` is what the memory layer holds
    beyond the parent's, `disk_bytes` what the disk overlay holds.
    """

    stopped_ms: float = 0.0
    paused_ms: float = 0.0
    total_ms: float = 0.0
    dirty_bytes: int = 0
    memory_bytes: int = 0
    device_bytes: int = 0
    disk_bytes: int = 0
    shared_bytes: int = 0
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def stored_bytes(self) -> int:
        """What was written for it alone."""
        return self.memory_bytes + self.device_bytes + self.disk_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Code that was run: the id of its place in a document, its number, its source."""

    id: str
    count: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A request that a kernel had not finished when it was saved, and carries on with on waking.

    `id` is how the kernel names it in its answers. `question` is what it waits for a person to
    answer, as JSON; empty if it waits for nobody.
    """

    id: str
    cell: Cell
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was executing when a checkpoint was taken, and what had been since its parent.

    `count` is how many cells had been run. `cell` is the one that asked for the checkpoint, or was
    the last to be run before it. `done` are the cells run on the branch since the parent.

    `incarnation` is the machine that was saved, and `position` how far the ledger was then: what
    that machine did outside before belongs to the checkpoint's past.
    """

    count: int = 0
    cell: Cell | None = None
    done: tuple[Cell, ...] = ()
    open: tuple[OpenRequest, ...] = ()
    incarnation: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An immutable saved machine. `session` is None for a base checkpoint: all sessions share it.

    `key` is the digest of what it can be restored under (QEMU, accelerator, CPU, size, image).
    """

    id: CheckpointId
    session: SessionId | None
    parent: CheckpointId | None
    label: str
    note: str
    kind: CheckpointKind
    branch: BranchName
    created_at: datetime
    key: str
    cost: CheckpointCost
    moment: Moment = field(default_factory=Moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRecord:
    """A named line of work on record; `head` is the checkpoint it last saved or woke from.

    `lent_to` is the session that it carries on in, None but for a branch that is lent.
    """

    session: SessionId
    name: BranchName
    index: int
    parent: BranchName | None
    origin: CheckpointId
    head: CheckpointId
    state: BranchState
    created_at: datetime
    lent_to: SessionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One notebook's tree. `key` is what finds it again, such as the notebook's path.

    `start` is the checkpoint that a fresh machine of it carries on from, None for the base.
    `current` is the branch it was last continued as.
    """

    id: SessionId
    key: str
    created_at: datetime
    start: CheckpointId | None = None
    current: BranchName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing done to a lineage, with what it cost: the rows of the cost table.

    `op` is the verb (checkpoint, fork, rollback, switch, keep, drop, pause, resume, lend, return,
    boot, lost), `phases_ms` its parts.
    """

    session: SessionId
    op: str
    branch: BranchName
    checkpoint: CheckpointId | None
    at: datetime
    total_ms: float
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    detail: str = ""
