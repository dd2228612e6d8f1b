"""A lineage drawn with characters, as `git log --graph` draws a history, the oldest first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from branchpoint_kernel.rendering import size
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
)
from branchpoint_vmruntime.lineage.layout import Placed, place
from branchpoint_vmruntime.storage.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else is to be told: the current branch, the pins, the memory of machines in words.

    `disk` is what checkpoints take there now.
    """

    current: str | None
    pins: frozenset[CheckpointId]
    memory: Mapping[str, str]
    disk: Mapping[CheckpointId, Sizes]


def draw(
    checkpoints: Sequence[Checkpoint], branches: Sequence[BranchRecord], known: Known
) -> list[str]:
    """A line for each checkpoint and for the tip of each branch that has not been given up."""
    kept = [branch for branch in branches if branch.state is not BranchState.DROPPED]
    placed = place(checkpoints, kept)
    edges = _edges(placed)
    drawn = [(edge + _mark(each, known), each) for edge, each in zip(edges, placed, strict=True)]
    room = max((len(line) + len(_name(each)) for line, each in drawn), default=0)
    return [
        f"{f'{line} {_name(each)}':<{room + 1}}  {_facts(each, known)}".rstrip()
        for line, each in drawn
    ]


def _edges(placed: Sequence[Placed]) -> list[str]:
    """What is to the left of each mark."""
    last_child = {each.parent_row: each.row for each in placed if each.parent_row is not None}
    open_until: dict[int, int] = {}
    lines: list[str] = []
    for each in placed:
        passing = ["│ " if open_until.get(at, -1) > each.row else "  " for at in range(each.lane)]
        if each.parent_row is not None and placed[each.parent_row].lane != each.lane:
            passing[-1] = "├─"
        lines.append("".join(passing))
        open_until[each.lane] = last_child.get(each.row, -1)
    return lines


def _mark(each: Placed, known: Known) -> str:
    if isinstance(each.subject, Checkpoint):
        return "●"
    return "▶" if each.subject.name == known.current else "○"


def _name(each: Placed) -> str:
    subject = each.subject
    return subject.name if isinstance(subject, BranchRecord) else subject.label or subject.id


def _facts(each: Placed, known: Known) -> str:
    subject = each.subject
    if isinstance(subject, BranchRecord):
        current = "current" if subject.name == known.current else ""
        facts = (f"branch, {subject.state.value}", current, known.memory.get(subject.name, ""))
    else:
        disk = known.disk.get(subject.id, Sizes())
        facts = (
            subject.id,
            subject.kind.value if subject.kind is not CheckpointKind.USER else "",
            "pinned" if subject.id in known.pins else "",
            f"{subject.created_at.astimezone():%Y-%m-%d %H:%M}",
            f"{size(disk.own)} own, {size(disk.shared)} shared, {size(disk.apparent)} apparent",
            subject.note,
        )
    return " · ".join(filter(None, facts))
