"""Where each checkpoint and each branch goes in the picture of a lineage. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from branchpoint_vmruntime.lineage import BranchName, BranchRecord, Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.tree import Tree


@dataclass(frozen=True, slots=True)
class Placed:
    """A checkpoint, or the tip of a branch, at its place: rows run down, lanes to the right."""

    subject: Checkpoint | BranchRecord
    row: int
    lane: int
    parent_row: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    """Something still to be placed."""

    subject: Checkpoint | BranchRecord
    lane: int
    parent_row: int | None


def place(
    checkpoints: Sequence[Checkpoint], branches: Sequence[BranchRecord]
) -> tuple[Placed, ...]:
    """Every checkpoint and every branch tip once, in the order of their rows.

    Each has a row of its own. A line of work goes straight down; what leaves it comes first, one
    lane to the right, so that no two edges cross. A branch whose head is gone is left out.
    """
    tree = Tree(checkpoints, branches)
    leads_to = _branches_below(tree, branches)
    waiting = [_Step(root, 0, None) for root in reversed(tree.roots())]
    placed: list[Placed] = []
    while waiting:
        step = waiting.pop()
        row = len(placed)
        placed.append(Placed(step.subject, row, step.lane, step.parent_row))
        if isinstance(step.subject, BranchRecord):
            continue
        next_ones = (*tree.children(step.subject.id), *tree.standing(step.subject.id))
        if next_ones:
            straight = _straight_on(step.subject, next_ones, leads_to)
            aside = [each for each in next_ones if each is not straight]
            # A stack: what is pushed last is placed first.
            waiting.append(_Step(straight, step.lane, row))
            waiting += [_Step(each, step.lane + 1, row) for each in reversed(aside)]
    return tuple(placed)


def _branches_below(
    tree: Tree, branches: Iterable[BranchRecord]
) -> Mapping[CheckpointId, frozenset[BranchName]]:
    """The branches whose tips are reached from each checkpoint."""
    found: dict[CheckpointId, set[BranchName]] = {}
    for branch in branches:
        if branch.head in tree:
            for checkpoint in tree.path(branch.head):
                found.setdefault(checkpoint.id, set()).add(branch.name)
    return {checkpoint_id: frozenset(names) for checkpoint_id, names in found.items()}


def _straight_on(
    checkpoint: Checkpoint,
    next_ones: Sequence[Checkpoint | BranchRecord],
    leads_to: Mapping[CheckpointId, frozenset[BranchName]],
) -> Checkpoint | BranchRecord:
    """What continues the line: its branch's present, or else its past, or else the first."""

    def rank(subject: Checkpoint | BranchRecord) -> int:
        if isinstance(subject, BranchRecord):
            return 2 if subject.name == checkpoint.branch else 0
        if subject.branch != checkpoint.branch:
            return 0
        return 2 if checkpoint.branch in leads_to.get(subject.id, ()) else 1

    return max(next_ones, key=rank)
