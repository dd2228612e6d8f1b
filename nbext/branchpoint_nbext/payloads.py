"""What the routes answer with. Pure: from facts of a lineage to JSON objects."""

from collections.abc import Sequence
from typing import TypedDict

from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, Operation, SessionRecord


class SessionPayload(TypedDict):
    """A session. `created_at` is ISO 8601."""

    id: str
    key: str
    created_at: str


class SessionsPayload(TypedDict):
    """Every session, oldest first."""

    sessions: list[SessionPayload]


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


def sessions_payload(records: Sequence[SessionRecord]) -> SessionsPayload:
    """Every session as JSON."""
    return {"sessions": [session_payload(record) for record in records]}


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
