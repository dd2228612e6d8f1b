"""What operations on a session report: what they made, and what they took."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import BranchName, Checkpoint


@dataclass(frozen=True, slots=True)
class ForkFailure:
    """One fork that did not come up."""

    name: BranchName
    error: BranchpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkReport(Sequence[Branch]):
    """What a fork made.

    The branches that came up (it iterates over them) and those that did not.
    """

    origin: Checkpoint
    branches: tuple[Branch, ...]
    failures: tuple[ForkFailure, ...]
    reseeded: bool
    total_ms: float

    def __len__(self) -> int:
        return len(self.branches)

    @overload
    def __getitem__(self, index: int) -> Branch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Branch]: ...
    def __getitem__(self, index: int | slice) -> Branch | Sequence[Branch]:
        return self.branches[index]

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """What a rollback did. `safety` is the checkpoint of what was left, if one could be taken."""

    branch: Branch
    checkpoint: Checkpoint
    safety: Checkpoint | None
    safety_note: str
    total_ms: float
    phases_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class ParkFailure:
    """One branch that could not be parked, and runs on."""

    name: BranchName
    error: BranchpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepReport:
    """What `keep` did.

    The branch this notebook continues as, those saved and ended, and those that run on because they
    could not be saved.
    """

    branch: Branch
    parked: tuple[Branch, ...]
    failures: tuple[ParkFailure, ...] = ()
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReport:
    """What pausing a branch did: the checkpoint it carries on from, the host memory given back."""

    branch: Branch
    checkpoint: Checkpoint
    freed_bytes: int
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReport:
    """What it took to give a branch its machine again, and for how many seconds it had none.

    `lost` says that its machine had ended unsaved: what it did after the checkpoint is gone.
    """

    branch: Branch
    checkpoint: Checkpoint
    away_s: float
    total_ms: float
    phases_ms: dict[str, float]
    lost: bool = False
