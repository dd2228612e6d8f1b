"""What the owner of a session answers at its control socket: facts, and the JSON they cross as.

An answer may have fields that this version does not know, and lack those that have a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointKind

Fact = TypeVar("Fact")


class OwnerKind(StrEnum):
    """What has a session open: a notebook's kernel, a process of its own, or some script."""

    KERNEL = "kernel"
    OWNER = "owner"
    SCRIPT = "script"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session that somebody has open, and the process that does."""

    id: str
    key: str
    pid: int
    kind: OwnerKind = OwnerKind.KERNEL


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """A checkpoint. Times in milliseconds, sizes in bytes, as `lineage.CheckpointCost` has them.

    `parent` is its parent's id, None for a base. `branch` is the one it was taken of.
    """

    id: str
    label: str
    note: str
    kind: CheckpointKind
    branch: str
    parent: str | None
    created_at: datetime
    pinned: bool
    memory_bytes: int
    device_bytes: int
    disk_bytes: int
    shared_bytes: int
    dirty_bytes: int
    stopped_ms: float
    paused_ms: float
    total_ms: float
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def stored_bytes(self) -> int:
        """What was written for it alone."""
        return self.memory_bytes + self.device_bytes + self.disk_bytes

    @classmethod
    def of(cls, checkpoint: Checkpoint, *, pinned: bool) -> "CheckpointFacts":
        """A checkpoint on record."""
        cost = checkpoint.cost
        return cls(
            id=checkpoint.id,
            label=checkpoint.label,
            note=checkpoint.note,
            kind=checkpoint.kind,
            branch=checkpoint.branch,
            parent=checkpoint.parent,
            created_at=checkpoint.created_at,
            pinned=pinned,
            memory_bytes=cost.memory_bytes,
            device_bytes=cost.device_bytes,
            disk_bytes=cost.disk_bytes,
            shared_bytes=cost.shared_bytes,
            dirty_bytes=cost.dirty_bytes,
            stopped_ms=cost.stopped_ms,
            paused_ms=cost.paused_ms,
            total_ms=cost.total_ms,
            phases_ms=dict(cost.phases_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """A branch. `head` and `head_label` are of the checkpoint it last saved or woke from.

    `own_bytes` and `shared_bytes` are the host memory of its machine, None without one. `awake_ms`
    is what that machine took to wake. `busy` tells whether code runs in it now.
    """

    name: str
    state: BranchState
    current: bool
    index: int
    parent: str | None
    origin: str
    head: str
    head_label: str
    created_at: datetime
    own_bytes: int | None = None
    shared_bytes: int | None = None
    awake_ms: float = 0.0
    busy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFork:
    """A fork that did not come up, and why."""

    name: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkFacts:
    """What a fork made: the branches that came up, and those that did not."""

    origin: CheckpointFacts
    branches: tuple[BranchFacts, ...]
    failures: tuple[FailedFork, ...]
    reseeded: bool
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackFacts:
    """What a rollback did. `safety` is the checkpoint of what was left, if one was taken."""

    branch: BranchFacts
    checkpoint: CheckpointFacts
    safety: CheckpointFacts | None
    safety_note: str
    total_ms: float
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPark:
    """A branch that could not be parked and runs on, and why."""

    name: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFacts:
    """What `keep` did.

    The branch the session continues as, those saved and ended, and those that could not be.
    """

    branch: BranchFacts
    parked: tuple[BranchFacts, ...]
    failures: tuple[FailedPark, ...] = ()
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseFacts:
    """What pausing did: the checkpoint a branch carries on from, the host memory given back."""

    branch: BranchFacts
    checkpoint: CheckpointFacts
    freed_bytes: int
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeFacts:
    """What it took to give a branch its machine again; `away_s` seconds it had been without.

    `lost` says that its machine had ended unsaved: what it did after the checkpoint is gone.
    """

    branch: BranchFacts
    checkpoint: CheckpointFacts
    away_s: float
    total_ms: float
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """The session that continues a branch, by its id and key."""

    session: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What code run in a branch's kernel gave: `status` is "ok" or "error", `text` its output."""

    branch: str
    status: str
    text: str
    elapsed_ms: float
    error_name: str = ""
    error_value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """What became of the machines of a session that was ended: branches saved, and those lost."""

    saved: tuple[PauseFacts, ...]
    lost: tuple[str, ...]


def to_json(fact: Any) -> dict[str, Any]:
    """A fact as an object of JSON's own kinds.

    >>> to_json(OpenSession(id="7f3c", key="a.ipynb", pid=42))["kind"] == "kernel"
    True
    """
    return {name: _plain(getattr(fact, name)) for name in _kinds(fact.__class__)}


def from_json(kind: type[Fact], raw: object) -> Fact:
    """The reverse of `to_json`; BranchpointError if that is no such fact.

    >>> from_json(OpenSession, {"id": "7f3c", "key": "a.ipynb", "pid": 42, "news": 1}).pid
    42
    """
    try:
        return cast("Fact", _read(kind, raw))
    except (TypeError, ValueError, AttributeError) as error:
        raise BranchpointError("the session's owner answered with what cannot be read") from error


@cache
def _kinds(kind: type[Any]) -> Mapping[str, Any]:
    """The fields of a fact and their types. Looked up once: views have thousands of facts."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            there = cast("dict[str, Any]", value)
            return {name: _plain(each) for name, each in there.items()}
        case list() | tuple():
            return [_plain(each) for each in cast("list[Any]", value)]
        case _ if is_dataclass(value):
            return to_json(value)
        case _:
            return value


def _read(kind: Any, value: Any) -> Any:
    if isinstance(kind, UnionType):
        options = [option for option in get_args(kind) if option is not NoneType]
        return None if value is None else _read(options[0], value)
    if get_origin(kind) is tuple:
        return tuple(_read(get_args(kind)[0], each) for each in value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if isinstance(kind, type) and is_dataclass(kind):
        kinds = _kinds(kind)
        return kind(**{name: _read(kinds[name], value[name]) for name in kinds if name in value})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    return value
