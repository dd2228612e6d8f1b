"""What the routes answer with. Pure: from facts of a lineage to JSON objects."""

from collections.abc import Callable, Sequence
from typing import TypedDict

from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    Operation,
    SessionRecord,
)
from branchpoint_vmruntime.overview import Overview, SessionOverview


class SessionPayload(TypedDict):
    """A session. `created_at` is ISO 8601."""

    id: str
    key: str
    created_at: str


class OverviewPayload(SessionPayload):
    """A session at a glance. `owner` is what has it open: kernel, owner or script; null if closed.

    `path` is its notebook's, as the server names it; null if that is not below its root folder.
    `branches` are those not given up; `newest_at` is when the newest checkpoint was taken.
    """

    path: str | None
    open: bool
    owner: str | None
    current: str | None
    checkpoints: int
    branches: int
    newest_at: str | None
    disk_bytes: int


class SessionsPayload(TypedDict):
    """Every session, oldest first."""

    sessions: list[OverviewPayload]


class CellPayload(TypedDict):
    """Code that was run: the id of its place in the notebook, its In[] number, its source."""

    id: str
    count: int
    source: str


class CheckpointPayload(TypedDict):
    """A checkpoint with its cost. Times in milliseconds, sizes in bytes.

    `cell` is the one that asked for it, or was the last to be run before it.
    """

    id: str
    parent: str | None
    label: str
    note: str
    kind: str
    branch: str
    cell: CellPayload | None
    created_at: str
    paused_ms: float
    total_ms: float
    memory_bytes: int
    device_bytes: int
    disk_bytes: int


class BranchPayload(TypedDict):
    """A branch as it is on record."""

    name: str
    index: int
    parent: str | None
    origin: str
    head: str
    state: str
    created_at: str


class OperationPayload(TypedDict):
    """One thing done, with what it cost."""

    op: str
    branch: str
    checkpoint: str | None
    at: str
    total_ms: float
    phases_ms: dict[str, float]
    detail: str


class LineagePayload(TypedDict):
    """A session's tree: checkpoints oldest first, branches in order of making."""

    session: SessionPayload
    checkpoints: list[CheckpointPayload]
    branches: list[BranchPayload]
    operations: list[OperationPayload]


def session_payload(record: SessionRecord) -> SessionPayload:
    """A session as JSON."""
    return {"id": record.id, "key": record.key, "created_at": record.created_at.isoformat()}


def overview_payload(seen: Overview, path_of: Callable[[str], str | None]) -> SessionsPayload:
    """Every session at a glance as JSON; `path_of` tells the notebook's path from a key."""
    return {"sessions": [_at_a_glance(session, path_of) for session in seen.sessions]}


def lineage_payload(
    session: SessionRecord,
    checkpoints: Sequence[Checkpoint],
    branches: Sequence[BranchRecord],
    operations: Sequence[Operation],
) -> LineagePayload:
    """A session's tree as JSON."""
    return {
        "session": session_payload(session),
        "checkpoints": [_checkpoint_payload(checkpoint) for checkpoint in checkpoints],
        "branches": [_branch_payload(branch) for branch in branches],
        "operations": [_operation_payload(operation) for operation in operations],
    }


def _at_a_glance(session: SessionOverview, path_of: Callable[[str], str | None]) -> OverviewPayload:
    return {
        "id": session.id,
        "key": session.key,
        "created_at": session.created_at.isoformat(),
        "path": path_of(session.key),
        "open": session.open,
        "owner": session.owner.kind.value if session.owner else None,
        "current": session.current,
        "checkpoints": session.checkpoints,
        "branches": sum(it.state is not BranchState.DROPPED for it in session.branches),
        "newest_at": session.newest_at.isoformat() if session.newest_at else None,
        "disk_bytes": session.disk_bytes,
    }


def _checkpoint_payload(checkpoint: Checkpoint) -> CheckpointPayload:
    cost, cell = checkpoint.cost, checkpoint.moment.cell
    return {
        "id": checkpoint.id,
        "parent": checkpoint.parent,
        "label": checkpoint.label,
        "note": checkpoint.note,
        "kind": checkpoint.kind.value,
        "branch": checkpoint.branch,
        "cell": {"id": cell.id, "count": cell.count, "source": cell.source} if cell else None,
        "created_at": checkpoint.created_at.isoformat(),
        "paused_ms": cost.paused_ms,
        "total_ms": cost.total_ms,
        "memory_bytes": cost.memory_bytes,
        "device_bytes": cost.device_bytes,
        "disk_bytes": cost.disk_bytes,
    }


def _branch_payload(branch: BranchRecord) -> BranchPayload:
    return {
        "name": branch.name,
        "index": branch.index,
        "parent": branch.parent,
        "origin": branch.origin,
        "head": branch.head,
        "state": branch.state.value,
        "created_at": branch.created_at.isoformat(),
    }


def _operation_payload(operation: Operation) -> OperationPayload:
    return {
        "op": operation.op,
        "branch": operation.branch,
        "checkpoint": operation.checkpoint,
        "at": operation.at.isoformat(),
        "total_ms": operation.total_ms,
        "phases_ms": dict(operation.phases_ms),
        "detail": operation.detail,
    }
