"""What a command leaves for programs: the record, as documented for its mimetype."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from branchpoint_vmruntime.branch_seam import Branch, MemoryUse
from branchpoint_vmruntime.lineage import BranchState, Cell, Checkpoint
from branchpoint_vmruntime.session import Session

RECORD_TYPE = "application/vnd.branchpoint+json"
SOURCE_RECORDED = 4096


@dataclass(frozen=True, slots=True)
class Fact:
    """What a record says of one operation beyond the state of the session."""

    op: str
    checkpoint: Checkpoint | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    total_ms: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


def memory_record(memory: MemoryUse | None) -> dict[str, int] | None:
    """Memory in a record, in bytes."""
    return memory and {"own": memory.own_bytes, "shared": memory.shared_bytes}


def record(session: Session, fact: Fact) -> dict[str, Any]:
    """The record of an operation, with the state it left the session in."""
    current = session.current
    return {
        "op": fact.op,
        "session": session.record.id,
        "branch": current.name,
        "checkpoint": fact.checkpoint and checkpoint_record(fact.checkpoint),
        "branches": [
            branch_record(branch, current)
            for branch in session.branches()
            if branch.state is not BranchState.DROPPED
        ],
        "phases_ms": dict(fact.phases_ms),
        "total_ms": fact.total_ms,
        "memory": memory_record(current.memory()),
        **fact.more,
    }


def branch_record(branch: Branch, current: Branch) -> dict[str, Any]:
    """A branch in a record."""
    return {
        "name": branch.name,
        "index": branch.record.index,
        "state": branch.state.value,
        "current": branch.name == current.name,
        "head": branch.record.head,
        "parent": branch.record.parent,
        "memory": memory_record(branch.memory()),
    }


def cell_record(cell: Cell) -> dict[str, Any]:
    """A cell in a record, a long source cut off."""
    return {"id": cell.id, "count": cell.count, "source": cell.source[:SOURCE_RECORDED]}


def checkpoint_record(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint in a record."""
    cost, moment = checkpoint.cost, checkpoint.moment
    return {
        "id": checkpoint.id,
        "label": checkpoint.label,
        "note": checkpoint.note,
        "kind": checkpoint.kind.value,
        "branch": checkpoint.branch,
        "parent": checkpoint.parent,
        "cell": moment.cell and cell_record(moment.cell),
        "execution_count": moment.count,
        "cells_done": len(moment.done),
        "inside_cell": any(request.cell.source for request in moment.open),
        "created_at": checkpoint.created_at.isoformat(),
        "paused_ms": cost.paused_ms,
        "memory_bytes": cost.memory_bytes,
        "disk_bytes": cost.disk_bytes,
        "shared_bytes": cost.shared_bytes,
    }
