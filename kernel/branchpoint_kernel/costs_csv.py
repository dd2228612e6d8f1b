"""Costs as tables for other programs: RFC 4180, UTF-8, plain numbers, units in the names. Pure.

What was not measured is left empty, so that it is no number where it is read either.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from branchpoint_kernel.costs_facts import last_wakings
from branchpoint_kernel.costs_rendering import COUNTED, BranchStanding, CostsTold
from branchpoint_vmruntime.lineage import Checkpoint, Operation
from branchpoint_vmruntime.outside.amounts import MICROS
from branchpoint_vmruntime.outside.costs import BranchCost

OPERATIONS = (
    "at",
    "operation",
    "branch",
    "checkpoint",
    "label",
    "total_ms",
    "paused_ms",
    "new_memory_bytes",
    "new_disk_bytes",
)
# Millionths are what is kept; money is what people reckon in.
_COUNTED = tuple(name for name in COUNTED if name != "micros")
BRANCHES = (
    "branch",
    "state",
    "lived_s",
    "own_bytes",
    "shared_bytes",
    "disk_bytes",
    "forks",
    *_COUNTED,
    "money",
    "currency",
    "awake_ms",
)
_SAVING = frozenset({"checkpoint", "pause", "bake"})
_GONE = "gone"


def operations_csv(operations: Sequence[Operation], checkpoints: Sequence[Checkpoint]) -> str:
    """A row for each operation, oldest first; a column for each phase that occurs."""
    saved = {str(checkpoint.id): checkpoint for checkpoint in checkpoints}
    phases = _phases(operation.phases_ms for operation in operations)
    return _table(
        [*OPERATIONS, *(_column(name) for name in phases)],
        (
            [*_operation(each, saved), *(each.phases_ms.get(name) for name in phases)]
            for each in operations
        ),
    )


def branches_csv(told: CostsTold) -> str:
    """A row for each branch, those not on record last; a column for each phase of its waking."""
    wakings = last_wakings(told.operations)
    phases = _phases(wakings.values())
    rows = [
        [*_branch(row, told.currency), *_waking(wakings.get(row.name), phases)] for row in told.rows
    ]
    rows += [
        [cost.branch, _GONE, *[None] * 5, *_spent(cost, told.currency), *_waking(None, phases)]
        for cost in told.gone
    ]
    return _table([*BRANCHES, *(_column(name) for name in phases)], rows)


def _operation(
    operation: Operation, saved: Mapping[str, Checkpoint]
) -> Sequence[str | float | None]:
    checkpoint = saved.get(operation.checkpoint or "")
    cost = checkpoint.cost if checkpoint and operation.op in _SAVING else None
    return (
        operation.at.isoformat(),
        operation.op,
        operation.branch,
        operation.checkpoint,
        checkpoint.label if checkpoint else None,
        operation.total_ms,
        cost and cost.paused_ms,
        cost and cost.memory_bytes,
        cost and cost.disk_bytes,
    )


def _branch(row: BranchStanding, currency: str) -> Sequence[str | float | None]:
    memory = row.memory
    return (
        row.name,
        row.state,
        None if row.lived_s is None else round(row.lived_s, 3),
        memory and memory.own_bytes,
        memory and memory.shared_bytes,
        row.disk_bytes,
        row.forks,
        *_spent(row.cost, currency),
    )


def _spent(cost: BranchCost, currency: str) -> Sequence[str | float]:
    return (*(getattr(cost, name) for name in _COUNTED), cost.micros / MICROS, currency)


def _waking(
    parts: Mapping[str, float] | None, phases: Sequence[str]
) -> Sequence[str | float | None]:
    if parts is None:
        return [None] * (1 + len(phases))
    return [round(sum(parts.values()), 3), *(parts.get(name) for name in phases)]


def _phases(several: Iterable[Mapping[str, float]]) -> Sequence[str]:
    return tuple(dict.fromkeys(name for phases in several for name in phases))


def _column(phase: str) -> str:
    return f"{phase.replace('-', '_')}_ms"


def _table(head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return text.getvalue()
