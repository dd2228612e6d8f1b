"""The checkpoints of a session as a tree. Pure."""

from collections.abc import Iterable

from branchpoint_vmruntime.errors import DamagedError, UnknownNameError
from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, CheckpointId


class Tree:
    """Who descends from whom, and which branches stand where.

    Every walk is bounded by the number of checkpoints: parents that run in a circle give a
    DamagedError instead of a hang.
    """

    def __init__(
        self, checkpoints: Iterable[Checkpoint], branches: Iterable[BranchRecord] = ()
    ) -> None:
        self._checkpoints = {checkpoint.id: checkpoint for checkpoint in checkpoints}
        self._children: dict[CheckpointId, list[Checkpoint]] = {
            known: [] for known in self._checkpoints
        }
        self._standing: dict[CheckpointId, list[BranchRecord]] = {}
        for checkpoint in self._checkpoints.values():
            if checkpoint.parent is not None and checkpoint.parent in self._children:
                self._children[checkpoint.parent].append(checkpoint)
        for branch in branches:
            self._standing.setdefault(branch.head, []).append(branch)

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __contains__(self, checkpoint_id: object) -> bool:
        return checkpoint_id in self._checkpoints

    def checkpoint(self, checkpoint_id: CheckpointId) -> Checkpoint:
        """The checkpoint of that id; UnknownNameError if it is not in the tree."""
        try:
            return self._checkpoints[checkpoint_id]
        except KeyError:
            raise UnknownNameError("checkpoint", checkpoint_id, tuple(self._checkpoints)) from None

    def roots(self) -> tuple[Checkpoint, ...]:
        """The checkpoints without a parent, oldest first."""
        return tuple(each for each in self._checkpoints.values() if each.parent is None)

    def children(self, checkpoint_id: CheckpointId) -> tuple[Checkpoint, ...]:
        """The checkpoints taken directly after this one, oldest first."""
        return tuple(self._children[self.checkpoint(checkpoint_id).id])

    def standing(self, checkpoint_id: CheckpointId) -> tuple[BranchRecord, ...]:
        """The branches whose head this checkpoint is."""
        return tuple(self._standing.get(self.checkpoint(checkpoint_id).id, ()))

    def path(self, checkpoint_id: CheckpointId) -> tuple[Checkpoint, ...]:
        """The checkpoint itself, its parent, and so on to the root."""
        steps = [self.checkpoint(checkpoint_id)]
        while (parent := steps[-1].parent) is not None:
            if parent not in self._checkpoints:
                raise DamagedError(
                    f"checkpoint {parent!r} is gone, and {steps[-1].id!r} descends from it"
                )
            if len(steps) == len(self._checkpoints):
                raise DamagedError(f"the ancestors of checkpoint {checkpoint_id!r} run in a circle")
            steps.append(self._checkpoints[parent])
        return tuple(steps)

    def depth(self, checkpoint_id: CheckpointId) -> int:
        """How many steps it is to the root."""
        return len(self.path(checkpoint_id)) - 1

    def descendants(self, checkpoint_id: CheckpointId) -> tuple[Checkpoint, ...]:
        """All that descends from this one, the nearest first."""
        found: dict[CheckpointId, Checkpoint] = {}
        rows = [self.children(checkpoint_id)]
        while rows[-1]:
            fresh = [each for each in rows[-1] if each.id not in found]
            found |= {each.id: each for each in fresh}
            rows.append(tuple(child for each in fresh for child in self._children[each.id]))
        return tuple(found.values())

    def common(self, one: CheckpointId, other: CheckpointId) -> Checkpoint | None:
        """The nearest checkpoint both descend from, or are; None under different roots."""
        mine = {checkpoint.id for checkpoint in self.path(one)}
        return next((each for each in self.path(other) if each.id in mine), None)
