"""What a session's tree has to be after what was done to it: a model to hold the store against."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.session_traces import OnRecord

from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts
from branchpoint_vmruntime.lineage import BranchRecord, BranchState, Checkpoint, CheckpointKind

FRESH = ""
_AWAY = {BranchState.PAUSED: CheckpointKind.PAUSED, BranchState.PARKED: CheckpointKind.PARKED}
_MACHINE = {BranchState.LIVE, BranchState.LOST}
_ASIDE = re.compile(r"~[0-9]+$")


@dataclass
class Saved:
    """A checkpoint: what is on record of it, and the value that was in the machine."""

    id: str
    label: str
    parent: str | None
    kind: CheckpointKind
    branch: str
    value: str = FRESH
    pinned: bool = False


@dataclass
class Line:
    """A branch. `values` are those its machine may have now; more than one only when cut short."""

    name: str
    state: BranchState
    head: str
    origin: str
    parent: str | None = None
    values: set[str] = field(default_factory=lambda: {FRESH})


class Cut(Protocol):
    """What is to be known of an operation that was cut short, as `random_steps.Step` has it."""

    @property
    def names(self) -> frozenset[str]: ...
    @property
    def states(self) -> frozenset[BranchState]: ...
    @property
    def goal(self) -> str | None: ...
    @property
    def value(self) -> str | None: ...
    @property
    def current(self) -> str | None: ...
    @property
    def going(self) -> frozenset[str]: ...
    @property
    def forks_of(self) -> str | None: ...


class TreeModel:
    """Sessions are few lines of bookkeeping once there are no machines, files or processes."""

    def __init__(self, base: CheckpointFacts) -> None:
        self.base = base.id
        self.saved = {base.id: _saved(base, FRESH)}
        # All sessions of a home share it: another may have pinned it.
        self.saved[base.id].pinned = base.pinned
        self.lines = {"main": Line("main", BranchState.LIVE, base.id, base.id)}
        self.current = "main"

    def live(self) -> list[str]:
        """The branches that have a machine."""
        return [it.name for it in self.lines.values() if it.state is BranchState.LIVE]

    def label(self, prefix: str) -> str:
        """The label that the next checkpoint of that kind gets."""
        return f"{prefix}-{_next(prefix, [it.label for it in self.saved.values()])}"

    def fork_names(self, parent: str, count: int) -> list[str]:
        """What forks are called that were given no names."""
        taken = [it.name for it in self.lines.values() if it.state is not BranchState.DROPPED]
        first = _next(parent, taken)
        return [f"{parent}-{number}" for number in range(first, first + count)]

    def took(
        self, name: str, made: CheckpointFacts | Checkpoint, *, kind: CheckpointKind, label: str
    ) -> None:
        """A branch was saved; but for a safety checkpoint, it stands on that now."""
        line = self.lines[name]
        assert (made.parent, made.branch) == (line.head, name), made
        assert (made.kind, made.label) == (kind, label), made
        (value,) = line.values
        self.saved[made.id] = _saved(made, value)
        if kind is not CheckpointKind.SAFETY:
            line.head = made.id

    def put_away(self, name: str, made: CheckpointFacts | Checkpoint, state: BranchState) -> None:
        """A branch was saved at its last moment and has no machine any more."""
        kind = _AWAY[state]
        self.took(name, made, kind=kind, label=self.label(f"{kind}-{name}"))
        self.lines[name].state = state

    def woke(self, name: str, head: str | None = None) -> None:
        """A branch has a machine again, from its head or from where it went back to."""
        line = self.lines[name]
        line.head = head or line.head
        line.state = BranchState.LIVE
        line.values = {self.saved[line.head].value}

    def forked(self, fork: BranchFacts | BranchRecord, origin: str, parent: str) -> None:
        """A fork came up."""
        assert (fork.origin, fork.head, fork.parent) == (origin, origin, parent), fork
        value = self.saved[origin].value
        self.lines[fork.name] = Line(fork.name, BranchState.LIVE, origin, origin, parent, {value})

    def lost_all(self) -> None:
        """Every machine has ended unsaved."""
        for name in self.live():
            self.lines[name].state = BranchState.LOST

    def began_anew(self) -> None:
        """The earlier branches are set aside, for a fresh `main`."""
        aside: dict[str, Line] = {}
        renamed: dict[str | None, str] = {}
        taken = set(self.lines)
        for line in self.lines.values():
            if line.state is BranchState.LOST and line.head == self.base:
                line.state = BranchState.DROPPED
            if line.state is not BranchState.DROPPED and not _ASIDE.search(line.name):
                old, line.name = line.name, _free(line.name, taken)
                renamed[old] = line.name
                taken.add(line.name)
            aside[line.name] = line
        for line in aside.values():
            line.parent = renamed.get(line.parent, line.parent)
        self.lines = aside | {"main": Line("main", BranchState.LIVE, self.base, self.base)}
        self.current = "main"

    def removable(self, wanted: Iterable[str]) -> set[str]:
        """Those of some checkpoints that go when they are to go: nothing needs them."""
        left, gone = set(wanted) - {self.base}, set[str]()
        stands = {it.head for it in self.lines.values() if it.state is not BranchState.DROPPED}
        while True:
            parents = {it.parent for it in self.saved.values() if it.id not in gone}
            free = {id_ for id_ in left if id_ not in parents | stands}
            free = {id_ for id_ in free if not self.saved[id_].pinned}
            if not free:
                return gone
            gone |= free
            left -= free

    def removed(self, gone: Collection[str]) -> None:
        """Those are no more."""
        assert self.removable(gone) == set(gone), "a checkpoint went that is needed"
        for id_ in gone:
            del self.saved[id_]

    def take_in(self, record: OnRecord, step: "Cut") -> None:
        """What came of an operation that was cut short: all, part or nothing of it is on record."""
        gone = set(self.saved) - set(record.checkpoints)
        assert gone <= step.going, "a checkpoint that was reported is gone"
        self.removed(gone)
        for id_ in [it for it in record.checkpoints if it not in self.saved]:
            made = record.checkpoints[id_]
            line = self.lines[made.branch]
            assert made.branch in step.names, made
            assert made.parent == line.head, made
            value = self.saved[line.head].value
            (value,) = line.values if line.state is BranchState.LIVE else {value}
            self.saved[id_] = _saved(made, value)
            self.saved[id_].pinned = id_ in record.pins
            if made.kind is not CheckpointKind.SAFETY:
                line.head = id_
        for name, branch in record.branches.items():
            self._take_in_branch(name, branch, step)
        assert set(self.lines) == set(record.branches)
        assert record.session.current in (self.current, step.current)
        self.current = str(record.session.current)

    def _take_in_branch(self, name: str, branch: BranchRecord, step: "Cut") -> None:
        line = self.lines.get(name)
        new = line is None or line.state is BranchState.DROPPED
        if new and step.forks_of is not None and branch.state is BranchState.LIVE:
            assert name in step.names
            origin = step.goal or self.lines[step.forks_of].head
            self.forked(branch, origin, step.forks_of)
            return
        assert line is not None, f"nobody asked for branch {name}"
        # Its owner has heard of a loss sooner or later than what is on record.
        same = branch.state is line.state or {branch.state, line.state} == _MACHINE
        if name not in step.names:
            assert (same, branch.head) == (True, line.head), f"nobody asked for a change of {name}"
            return
        assert branch.head in (line.head, step.goal), f"{name} stands elsewhere"
        assert same or branch.state in step.states, f"{name} is {branch.state}"
        before = (line.state, line.head)
        if branch.state is BranchState.LIVE and before != (BranchState.LIVE, branch.head):
            # It may be lost still: that is told by its machine, if it has one.
            self.woke(name, branch.head)
        line.state = line.state if same else branch.state
        if step.value is not None:
            line.values.add(step.value)
        if step.goal is not None and branch.head == step.goal:
            line.values.add(self.saved[step.goal].value)

    def branches_as_told(self) -> dict[str, tuple[object, ...]]:
        """What there is to be read of branches, by their names."""
        return {it.name: (it.state, it.head, it.origin, it.parent) for it in self.lines.values()}

    def checkpoints_as_told(self) -> dict[str, tuple[object, ...]]:
        """What there is to be read of checkpoints, by their ids."""
        return {
            it.id: (it.label, it.parent, it.kind, it.branch, it.pinned)
            for it in self.saved.values()
        }


def _saved(made: CheckpointFacts | Checkpoint, value: str) -> Saved:
    return Saved(made.id, made.label, made.parent, made.kind, made.branch, value)


def _next(prefix: str, taken: Iterable[str]) -> int:
    found = [re.fullmatch(re.escape(prefix) + "-([0-9]+)", name) for name in taken]
    return max((int(match[1]) for match in found if match), default=0) + 1


def _free(name: str, taken: Collection[str]) -> str:
    return next(it for n in range(1, 999) if (it := f"{name}~{n}") not in taken)
