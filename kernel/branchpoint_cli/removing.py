"""Removes checkpoints of an open session, and says of those that stay why they do."""

from collections.abc import Sequence
from dataclasses import dataclass

from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.session_control import SessionControl


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint that was to go and stays, and why."""

    checkpoint: CheckpointFacts
    why: str


async def remove_checkpoints(
    session: SessionControl, names: Sequence[str]
) -> tuple[list[CheckpointFacts], list[Kept]]:
    """Those that went, and those that stay."""
    before = await session.checkpoints()
    gone = list(await session.remove(names))
    there = {checkpoint.id for checkpoint in gone}
    left = [checkpoint for checkpoint in before if checkpoint.id not in there]
    meant = [_named(name, before) for name in names]
    branches = await session.branches()
    kept = {one.id: one for one in meant if one is not None and one.id not in there}
    return gone, [Kept(checkpoint=one, why=_why(one, left, branches)) for one in kept.values()]


def _named(name: str, checkpoints: Sequence[CheckpointFacts]) -> CheckpointFacts | None:
    """As the owner takes a name: the newest of that label, else the one whose id begins so."""
    for checkpoint in reversed(checkpoints):
        if checkpoint.label == name:
            return checkpoint
    return next((one for one in checkpoints if one.id.startswith(name)), None)


def _why(
    checkpoint: CheckpointFacts,
    left: Sequence[CheckpointFacts],
    branches: Sequence[BranchFacts],
) -> str:
    name = checkpoint.label or checkpoint.id
    if checkpoint.kind is CheckpointKind.BASE:
        return "every session begins at it"
    if checkpoint.pinned:
        return f"it is pinned; `branchpoint unpin {name}` lets it go"
    children = [one.label or one.id for one in left if one.parent == checkpoint.id]
    if children:
        return f"others descend from it: {', '.join(children)}"
    standing = [
        one.name
        for one in branches
        if checkpoint.id in {one.head, one.origin} and one.state is not BranchState.DROPPED
    ]
    return f"a branch stands on it: {', '.join(standing)}" if standing else "it is still needed"
