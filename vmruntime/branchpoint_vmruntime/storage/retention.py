"""Which checkpoints of a session go when its store's budgets are exceeded: a plan, and why. Pure.

Only a leaf can go, one that nothing descends from; so what goes, goes from the leaves up.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
)

_DAY_S = 86400
# What those are called that nobody gave a label, neither when they were taken nor later.
_NUMBERED = {
    CheckpointKind.USER: re.compile(r"checkpoint-[0-9]+"),
    CheckpointKind.AUTO: re.compile(r"auto-[0-9]+"),
    CheckpointKind.SAFETY: re.compile(r"before-rollback-[0-9]+"),
    CheckpointKind.FORK_POINT: re.compile(r"fork-[0-9]+"),
    CheckpointKind.PARKED: re.compile(r"parked-(.+-)?[0-9]+"),
    CheckpointKind.PAUSED: re.compile(r"paused-(.+-)?[0-9]+"),
}
_ORDER = {
    CheckpointKind.SAFETY: 0,
    CheckpointKind.FORK_POINT: 1,
    CheckpointKind.AUTO: 2,
    CheckpointKind.PAUSED: 3,
    CheckpointKind.PARKED: 4,
    CheckpointKind.USER: 4,
    CheckpointKind.BASE: 6,
}
_LABELLED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBudgets:
    """What a session's checkpoints may take on disk; None is no limit.

    `bytes` is what they hold of their own, `age_s` how old each may be, `checkpoints` how many.
    """

    bytes: int | None = None
    age_s: float | None = None
    checkpoints: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return not self.bytes is self.age_s is self.checkpoints is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a checkpoint that takes `bytes` of its own, and why."""

    checkpoint: Checkpoint
    bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What goes, children before their parents, and what stays, oldest first.

    `unmet` says in words which budgets are exceeded all the same; empty if none is.
    """

    removed: tuple[Verdict, ...]
    kept: tuple[Verdict, ...]
    unmet: tuple[str, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """What would be free on disk."""
        return sum(verdict.bytes for verdict in self.removed)


def plan(
    checkpoints: Sequence[Checkpoint],
    branches: Iterable[BranchRecord],
    budgets: StoreBudgets,
    *,
    now: datetime,
    pins: AbstractSet[CheckpointId] = frozenset(),
    start: CheckpointId | None = None,
    spared: AbstractSet[CheckpointId] = frozenset(),
    sizes: Mapping[CheckpointId, int] | None = None,
    session: SessionId | None = None,
    stood_on: Mapping[CheckpointId, str] | None = None,
) -> Plan:
    """What of a session goes so that its budgets hold, the least costly to lose first.

    Bases are nobody's own: they are left out, and with `session` what others than that one have
    taken. `start` is where fresh machines start from, `spared` what is in use in a way that no
    record tells, `stood_on` what other sessions stand on, with the key of one that does. `sizes`
    are bytes on disk; without them, what was written as a checkpoint was taken counts.
    """
    own = [c for c in checkpoints if session in (None, c.session)]
    held = _held(branches, pins, start, spared, stood_on or {})
    return _Planning(checkpoints, own, held, budgets, now, sizes).plan()


class _Planning:
    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        own: Sequence[Checkpoint],
        held: Mapping[CheckpointId, str],
        budgets: StoreBudgets,
        now: datetime,
        sizes: Mapping[CheckpointId, int] | None,
    ) -> None:
        self._there = {c.id: c for c in own if c.kind is not CheckpointKind.BASE}
        self._budgets = budgets
        self._now = now
        self._sizes = sizes or {c.id: c.cost.stored_bytes for c in self._there.values()}
        self._children = Counter(c.parent for c in self._there.values() if c.parent)
        self._held = held
        self._depths = _depths(checkpoints)
        self._total = sum(self._size(each) for each in self._there.values())
        self._removed: dict[CheckpointId, Verdict] = {}

    def plan(self) -> Plan:
        self._remove_old()
        self._remove_while_over()
        # What kept an old one may have gone since.
        self._remove_old()
        kept = [c for c in self._there.values() if c.id not in self._removed]
        elder = {c.parent: c for c in kept}
        return Plan(
            removed=tuple(self._removed.values()),
            kept=tuple(self._verdict(c, self._why_kept(c, elder.get(c.id))) for c in kept),
            unmet=tuple(self._unmet(kept)),
        )

    def _remove_old(self) -> None:
        limit = self._budgets.age_s
        if limit is None:
            return
        leaves = [c for c in self._there.values() if self._free(c) and self._age_s(c) > limit]
        while leaves:
            leaf = leaves.pop()
            parent = self._remove(
                leaf, f"it is {_days(self._age_s(leaf))} old, over {_days(limit)}"
            )
            if parent is not None and self._age_s(parent) > limit:
                leaves.append(parent)

    def _remove_while_over(self) -> None:
        leaves = [self._ranked(c) for c in self._there.values() if self._free(c)]
        heapq.heapify(leaves)
        while leaves and (why := self._exceeded()):
            leaf = self._there[heapq.heappop(leaves)[-1]]
            parent = self._remove(leaf, f"{why}, and {_worth(leaf)} is least costly to lose")
            if parent is not None:
                heapq.heappush(leaves, self._ranked(parent))

    def _exceeded(self) -> str:
        limit, count = self._budgets.checkpoints, len(self._there) - len(self._removed)
        if limit is not None and count > limit:
            return f"there are more than {limit}"
        if self._budgets.bytes is not None and self._total > self._budgets.bytes:
            return f"they take more than {_megabytes(self._budgets.bytes)}"
        return ""

    def _remove(self, leaf: Checkpoint, why: str) -> Checkpoint | None:
        """Take a leaf; its parent, if that can go now."""
        self._removed[leaf.id] = self._verdict(leaf, why)
        self._total -= self._size(leaf)
        if leaf.parent is None or leaf.parent not in self._there:
            return None
        self._children[leaf.parent] -= 1
        parent = self._there[leaf.parent]
        return parent if self._free(parent) else None

    def _free(self, checkpoint: Checkpoint) -> bool:
        return (
            checkpoint.id not in self._held
            and checkpoint.id not in self._removed
            and not self._children[checkpoint.id]
        )

    def _ranked(self, checkpoint: Checkpoint) -> tuple[int, int, float, CheckpointId]:
        """The least costly first: by kind, by days of age, by what it frees for its depth."""
        days = int(self._age_s(checkpoint) // _DAY_S)
        depth = max(1, self._depths.get(checkpoint.id, 1))
        return _rank(checkpoint), -days, -self._size(checkpoint) / depth, checkpoint.id

    def _why_kept(self, checkpoint: Checkpoint, child: Checkpoint | None) -> str:
        if checkpoint.id in self._held:
            return self._held[checkpoint.id]
        if child is not None:
            return f"{child.label or child.id!r} descends from it"
        return "it is within the budgets" if self._budgets.any else "there is no budget"

    def _unmet(self, kept: Sequence[Checkpoint]) -> Iterable[str]:
        limit = self._budgets.checkpoints
        if limit is not None and len(kept) > limit:
            yield f"{len(kept)} checkpoints are left, and the budget is {limit}"
        if self._budgets.bytes is not None and self._total > self._budgets.bytes:
            yield (
                f"{_megabytes(self._total)} are left, "
                f"and the budget is {_megabytes(self._budgets.bytes)}"
            )
        old = self._budgets.age_s
        if old is not None and (count := sum(self._age_s(c) > old for c in kept)):
            yield f"{count} of those left are older than {_days(old)}"

    def _verdict(self, checkpoint: Checkpoint, why: str) -> Verdict:
        return Verdict(checkpoint=checkpoint, bytes=self._size(checkpoint), why=why)

    def _size(self, checkpoint: Checkpoint) -> int:
        return self._sizes.get(checkpoint.id, 0)

    def _age_s(self, checkpoint: Checkpoint) -> float:
        # A clock that was set back makes nothing old.
        return max(0.0, (self._now - checkpoint.created_at).total_seconds())


def _held(
    branches: Iterable[BranchRecord],
    pins: AbstractSet[CheckpointId],
    start: CheckpointId | None,
    spared: AbstractSet[CheckpointId],
    stood_on: Mapping[CheckpointId, str],
) -> dict[CheckpointId, str]:
    """What never goes, and why; what those descend from stays because they do."""
    held = dict.fromkeys(spared, "it is in use")
    held |= {id_: f"session {key!r} stands on it" for id_, key in stood_on.items()}
    if start is not None:
        held[start] = "fresh machines of this session start from it"
    for branch in branches:
        if branch.state is not BranchState.DROPPED:
            held[branch.head] = f"branch {branch.name} stands on it"
    return held | dict.fromkeys(pins, "it is pinned")


def _depths(checkpoints: Iterable[Checkpoint]) -> dict[CheckpointId, int]:
    """How many steps each is from its root. A parent is on record before its children."""
    depths: dict[CheckpointId, int] = {}
    for checkpoint in checkpoints:
        above = -1 if checkpoint.parent is None else depths.get(checkpoint.parent, 0)
        depths[checkpoint.id] = above + 1
    return depths


def _rank(checkpoint: Checkpoint) -> int:
    return _LABELLED if _was_named(checkpoint) else _ORDER[checkpoint.kind]


def _was_named(checkpoint: Checkpoint) -> bool:
    numbered = _NUMBERED.get(checkpoint.kind)
    return bool(checkpoint.label and numbered and not numbered.fullmatch(checkpoint.label))


def _worth(checkpoint: Checkpoint) -> str:
    match checkpoint.kind:
        case _ if _was_named(checkpoint):
            return "this one"
        case CheckpointKind.SAFETY:
            return "what a rollback left"
        case CheckpointKind.FORK_POINT:
            return "a fork point that no branch stands on"
        case CheckpointKind.AUTO:
            return "an automatic checkpoint"
        case CheckpointKind.PAUSED:
            return "a pause that was ended since"
        case CheckpointKind.PARKED:
            return "what a branch was parked as"
        case _:
            return "one without a label of its own"


def _days(seconds: float) -> str:
    for name, unit_s in (("days", _DAY_S), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.0f} s"


def _megabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
