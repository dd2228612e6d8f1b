"""Between the facts of a lineage and the rows they are stored as. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from datetime import datetime
from sqlite3 import Row
from typing import Any

from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Cell,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    OpenRequest,
    Operation,
    SessionId,
    SessionRecord,
)

# A session's checkpoints are thousands at the most. Those removed are forgotten with all others.
MOST_KNOWN = 20_000
_COST_NUMBERS = tuple(field.name for field in fields(CheckpointCost) if field.name != "phases_ms")


def phases_to_json(phases_ms: Mapping[str, float]) -> str:
    """Milliseconds by phase as JSON, in the order they were given."""
    return json.dumps(dict(phases_ms))


def phases_from_json(text: str) -> dict[str, float]:
    """The reverse of `phases_to_json`."""
    return {str(name): float(value) for name, value in json.loads(text).items()}


def cost_to_json(cost: CheckpointCost) -> str:
    """A checkpoint's cost as one JSON object."""
    numbers: dict[str, Any] = {name: getattr(cost, name) for name in _COST_NUMBERS}
    return json.dumps(numbers | {"phases_ms": dict(cost.phases_ms)})


def cost_from_json(text: str) -> CheckpointCost:
    """The reverse of `cost_to_json`; what an older version did not know of is zero.

    >>> cost_from_json('{"paused_ms": 46.0, "phases_ms": {"freeze": 11.0}}').paused_ms
    46.0
    """
    raw = json.loads(text)
    phases = {str(name): float(value) for name, value in raw.get("phases_ms", {}).items()}
    numbers = {name: raw[name] for name in _COST_NUMBERS if name in raw}
    return CheckpointCost(**numbers, phases_ms=phases)


def moment_to_json(moment: Moment) -> str:
    """What was executing as one JSON object."""
    return json.dumps(asdict(moment))


def moment_from_json(text: str) -> Moment:
    """The reverse of `moment_to_json`; of what is not there nothing is known.

    >>> moment_from_json('{"count": 3}').count
    3
    """
    raw = json.loads(text)
    cell = raw.get("cell")
    return Moment(
        count=raw.get("count", 0),
        cell=Cell(**cell) if cell else None,
        done=tuple(Cell(**each) for each in raw.get("done", ())),
        open=tuple(
            OpenRequest(id=each["id"], cell=Cell(**each["cell"]), question=each["question"])
            for each in raw.get("open", ())
        ),
        incarnation=raw.get("incarnation", ""),
        position=raw.get("position", 0),
    )


def session_from_row(row: Row) -> SessionRecord:
    """A session as it is stored."""
    # A file that an older version exported has no such columns.
    there = set(row.keys())
    start = row["start"] if "start" in there else None
    current = row["current"] if "current" in there else None
    return SessionRecord(
        id=SessionId(row["id"]),
        key=row["key"],
        created_at=datetime.fromisoformat(row["created_at"]),
        start=CheckpointId(start) if start else None,
        current=BranchName(current) if current else None,
    )


def session_to_row(record: SessionRecord) -> dict[str, Any]:
    """A session's columns."""
    return {
        "id": record.id,
        "key": record.key,
        "created_at": record.created_at.isoformat(),
        "start": record.start,
        "current": record.current,
    }


def checkpoint_to_row(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint's columns."""
    return {
        "id": checkpoint.id,
        "session": checkpoint.session,
        "parent": checkpoint.parent,
        "label": checkpoint.label,
        "note": checkpoint.note,
        "kind": checkpoint.kind.value,
        "branch": checkpoint.branch,
        "created_at": checkpoint.created_at.isoformat(),
        "key": checkpoint.key,
        "cost": cost_to_json(checkpoint.cost),
        "moment": moment_to_json(checkpoint.moment),
    }


def checkpoint_from_row(row: Row) -> Checkpoint:
    """A checkpoint as it is stored."""
    session, parent = row["session"], row["parent"]
    return Checkpoint(
        id=CheckpointId(row["id"]),
        session=None if session is None else SessionId(session),
        parent=None if parent is None else CheckpointId(parent),
        label=row["label"],
        note=row["note"],
        kind=CheckpointKind(row["kind"]),
        branch=BranchName(row["branch"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        key=row["key"],
        cost=cost_from_json(row["cost"]),
        # Who only reads may find a journal of version 1.
        moment=moment_from_json(row["moment"]) if "moment" in row.keys() else Moment(),  # noqa: SIM118
    )


class ReadOnce:
    """Checkpoints of one file, each read from its row once: no row is ever rewritten."""

    def __init__(self) -> None:
        self._known: dict[int, Checkpoint] = {}

    def unread(self, numbers: Iterable[int]) -> list[int]:
        """Those of these numbers whose rows are still to be read."""
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        return [number for number in numbers if number not in self._known]

    def numbered(self, numbers: Iterable[int]) -> list[Checkpoint]:
        """Those of these numbers that were read, in that order."""
        return [self._known[number] for number in numbers if number in self._known]

    def checkpoint(self, row: Row) -> Checkpoint:
        """A checkpoint as it is stored."""
        known = self._known.get(row["number"])
        if known is None:
            known = self._known[row["number"]] = checkpoint_from_row(row)
        return known


def annotated(checkpoint: Checkpoint, row: Row) -> Checkpoint:
    """A checkpoint as a person called it later."""
    label, note = row["label"], row["note"]
    return replace(
        checkpoint,
        label=checkpoint.label if label is None else label,
        note=checkpoint.note if note is None else note,
    )


def branch_to_row(record: BranchRecord) -> dict[str, Any]:
    """A branch's columns."""
    return {
        "session": record.session,
        "name": record.name,
        "position": record.index,
        "parent": record.parent,
        "origin": record.origin,
        "head": record.head,
        "state": record.state.value,
        "created_at": record.created_at.isoformat(),
        "lent_to": record.lent_to,
    }


def branch_from_row(row: Row) -> BranchRecord:
    """A branch as it is stored."""
    parent = row["parent"]
    # A file that an older version exported has no such column.
    lent_to = row["lent_to"] if "lent_to" in set(row.keys()) else None
    return BranchRecord(
        session=SessionId(row["session"]),
        name=BranchName(row["name"]),
        index=row["position"],
        parent=None if parent is None else BranchName(parent),
        origin=CheckpointId(row["origin"]),
        head=CheckpointId(row["head"]),
        state=BranchState(row["state"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        lent_to=SessionId(lent_to) if lent_to else None,
    )


def operation_to_row(operation: Operation) -> dict[str, Any]:
    """An operation's columns."""
    return {
        "session": operation.session,
        "op": operation.op,
        "branch": operation.branch,
        "checkpoint": operation.checkpoint,
        "at": operation.at.isoformat(),
        "total_ms": operation.total_ms,
        "phases_ms": phases_to_json(operation.phases_ms),
        "detail": operation.detail,
    }


def operation_from_row(row: Row) -> Operation:
    """An operation as it is stored."""
    checkpoint = row["checkpoint"]
    return Operation(
        session=SessionId(row["session"]),
        op=row["op"],
        branch=BranchName(row["branch"]),
        checkpoint=None if checkpoint is None else CheckpointId(checkpoint),
        at=datetime.fromisoformat(row["at"]),
        total_ms=row["total_ms"],
        phases_ms=phases_from_json(row["phases_ms"]),
        detail=row["detail"],
    )
