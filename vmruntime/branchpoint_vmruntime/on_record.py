"""What is on record of a session this process owns: its branches, checkpoints and operations."""

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.lineage import (
    Checkpoint,
    CheckpointId,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.register import Register


class OnRecord:
    """The part of `session.Session` that only looks."""

    def __init__(self, register: Register) -> None:
        self._register = register

    @property
    def record(self) -> SessionRecord:
        """Which session this is."""
        return self._register.record

    @property
    def loan(self) -> Loan | None:
        """How it continues a branch of another session; None if it does not."""
        return self._register.loan

    @property
    def current(self) -> OwnedBranch:
        """The branch that operations without a name are about."""
        return self._register.current

    def branches(self) -> list[OwnedBranch]:
        """Every branch on record, in order of making."""
        return self._register.branches()

    def branch(self, name: str) -> OwnedBranch:
        """The branch of that name."""
        return self._register.branch(name)

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session and the base they root in, oldest first."""
        return self._register.checkpoints()

    def path(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoint itself, its parent, and so on to the root."""
        return list(self._register.tree().path(checkpoint.id))

    def operations(self, *, newest: int | None = None) -> list[Operation]:
        """What was done, oldest first, with what it cost: all of it, or the newest so many."""
        return self._register.operations(newest=newest)

    def key_of(self, session: SessionId) -> str:
        """The key of a session of the same home; nothing if there is none."""
        return self._register.key_of(session)

    def find(self, name: str | None, *, branch: str | None = None) -> Checkpoint:
        """By label, or by the start of an id; None: the last of a branch, or of the current one."""
        return self._register.find(name, self._of(branch))

    def pins(self) -> set[CheckpointId]:
        """The checkpoints of the session that are to be kept whatever else goes."""
        return self._register.pins()

    def _of(self, name: str | None) -> OwnedBranch:
        return self.current if name is None else self.branch(name)
