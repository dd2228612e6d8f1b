"""A session as it is shown: its checkpoints, branches, costs and cells as facts, for who draws it.

They cross to pages and panels as `control_facts.to_json` writes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts, OwnerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCell:
    """A cell that was run: the id of its place in the document and the number it had."""

    id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellText:
    """A cell that was run on a line of work, with its source as it was then."""

    id: str
    count: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """A checkpoint as it is shown. `count` is how many cells had been run when it was taken.

    `cell` is the one that asked for it, or was the last to be run before it, None if there was
    none; `source` the beginning of what that cell said, in one line.
    """

    facts: CheckpointFacts
    count: int = 0
    cell: RanCell | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchView:
    """A branch as it is shown, with what it has cost: seconds of a live machine, bytes, tokens.

    `micros` are millionths of the currency. `phases_ms` are the parts of its last waking. Of a
    branch that another notebook continues, `lent_to` is the key of that one's session.
    """

    facts: BranchFacts
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    lived_s: float = 0.0
    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int = 0
    lent_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """One thing done, with what it cost. Times in milliseconds."""

    op: str
    branch: str
    checkpoint: str | None
    at: datetime
    total_ms: float
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """Something being done now: the operation, the branch it is about, when it was begun."""

    op: str
    branch: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageView:
    """All that is shown of one session.

    `version` grows with each change while one owner has it open; 0 if it is closed. `owner` is what
    has it open, None if nothing has. `current` is the branch its notebook is on. Checkpoints are
    oldest first, branches in order of making, the dropped ones too, operations the newest first,
    MOST_OPERATIONS at the most.

    `line` are the cells whose last run is part of what the current branch is now; `left` the runs
    that are part of other futures alone: of a branch that is not current, or given up. `died` are
    the ids of cells whose last run came to no end, because its machine ended first.
    """

    version: int
    session: str
    key: str
    created_at: datetime
    owner: OwnerKind | None
    current: str | None
    checkpoints: tuple[CheckpointView, ...]
    branches: tuple[BranchView, ...]
    operations: tuple[OperationView, ...] = ()
    currency: str = ""
    under_way: tuple[UnderWay, ...] = ()
    line: tuple[RanCell, ...] = ()
    left: tuple[RanCell, ...] = ()
    died: tuple[str, ...] = ()


MOST_OPERATIONS = 200
