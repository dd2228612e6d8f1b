"""Short ways to write down checkpoints, branches and operations in tests."""

from datetime import UTC, datetime, timedelta

from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Operation,
    SessionId,
    SessionRecord,
)

DAY = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SESSION = SessionId("session-1")
KEY = "qemu-tcg-768"


def a_session(id: str = SESSION, key: str = "/home/me/notebook.ipynb") -> SessionRecord:  # noqa: A002
    return SessionRecord(id=SessionId(id), key=key, created_at=DAY)


def a_base(id: str = "base0000", *, key: str = KEY, minute: int = 0) -> Checkpoint:  # noqa: A002
    return Checkpoint(
        id=CheckpointId(id),
        session=None,
        parent=None,
        label="base",
        note="",
        kind=CheckpointKind.BASE,
        branch=BranchName(""),
        created_at=DAY + timedelta(minutes=minute),
        key=key,
        cost=CheckpointCost(memory_bytes=400 << 20, phases_ms={"boot": 6500.0}),
    )


def a_checkpoint(
    id: str,  # noqa: A002
    parent: str = "base0000",
    *,
    label: str | None = None,
    branch: str = "main",
    session: str = SESSION,
    minute: int = 1,
    kind: CheckpointKind = CheckpointKind.USER,
    cost: CheckpointCost | None = None,
) -> Checkpoint:
    return Checkpoint(
        id=CheckpointId(id),
        session=SessionId(session),
        parent=CheckpointId(parent),
        label=id if label is None else label,
        note="",
        kind=kind,
        branch=BranchName(branch),
        created_at=DAY + timedelta(minutes=minute),
        key=KEY,
        cost=cost or CheckpointCost(paused_ms=46.0, memory_bytes=38 << 20),
    )


def a_branch(
    name: str = "main",
    head: str = "base0000",
    *,
    origin: str = "base0000",
    parent: str | None = None,
    index: int = 0,
    state: BranchState = BranchState.LIVE,
    session: str = SESSION,
) -> BranchRecord:
    return BranchRecord(
        session=SessionId(session),
        name=BranchName(name),
        index=index,
        parent=None if parent is None else BranchName(parent),
        origin=CheckpointId(origin),
        head=CheckpointId(head),
        state=state,
        created_at=DAY,
    )


def an_operation(op: str = "checkpoint", *, checkpoint: str | None = None) -> Operation:
    return Operation(
        session=SESSION,
        op=op,
        branch=BranchName("main"),
        checkpoint=None if checkpoint is None else CheckpointId(checkpoint),
        at=DAY,
        total_ms=120.5,
        phases_ms={"freeze": 11.0, "stop": 0.5},
        detail="",
    )
