"""Puts together what is told of costs, of a session open here and of one on record. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from branchpoint_kernel.costs_rendering import BranchStanding, CostsTold
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, Operation
from branchpoint_vmruntime.lineage.naming import without_number
from branchpoint_vmruntime.outside.costs import BranchCost
from branchpoint_vmruntime.outside.limits import Standing


def put_together(
    branches: Sequence[BranchRecord],
    checkpoints: Sequence[Checkpoint],
    operations: Sequence[Operation],
    costs: Sequence[BranchCost],
    *,
    lived_s: Callable[[str], float | None],
    memory: Callable[[str], MemoryUse | None],
    limits: Sequence[Standing] | None,
    currency: str,
) -> CostsTold:
    """What a session has cost; `branches` are all of it, with what has become of them.

    `checkpoints` may have those of others among them. `lived_s` and `memory` give those of a branch
    by its name, None if they are not known.
    """
    spent = {it.branch: it for it in costs}
    forked = Counter(branch.parent for branch in branches)
    stored = _stored_bytes(branches, checkpoints)
    rows = [
        BranchStanding(
            name=branch.name,
            state=branch.state.value,
            lived_s=lived_s(branch.name),
            memory=memory(branch.name),
            disk_bytes=stored[branch.name],
            forks=forked[branch.name],
            cost=spent.pop(branch.name, BranchCost(branch=branch.name)),
        )
        for branch in branches
    ]
    return CostsTold(
        rows=rows,
        gone=list(spent.values()),
        limits=limits,
        currency=currency,
        operations=operations,
        paused_ms={point.id: point.cost.paused_ms for point in checkpoints},
    )


def _stored_bytes(
    branches: Sequence[BranchRecord], checkpoints: Sequence[Checkpoint]
) -> Counter[str]:
    """By branch, what its checkpoints hold; those that another session saved are that one's."""
    ours = {branch.session for branch in branches}
    called = defaultdict[str, list[BranchRecord]](list)
    for branch in sorted(branches, key=lambda it: it.created_at):
        for name in {branch.name, without_number(branch.name)}:
            called[name].append(branch)
    stored = Counter[str]()
    for point in checkpoints:
        if point.session in ours:
            stored[_bearer(point, called[point.branch])] += point.cost.stored_bytes
    return stored


def _bearer(point: Checkpoint, called: Sequence[BranchRecord]) -> str:
    """Which of those that are or were called so was, when it was saved; the oldest first."""
    # A branch that a restart sets aside is called otherwise, and its checkpoints are not.
    there = [branch.name for branch in called if branch.created_at <= point.created_at]
    return there[-1] if there else point.branch
