"""What a collection removes, would remove, and leaves alone, each with its reason: plain facts."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from branchpoint_vmruntime.storage.retention import Verdict


class Waste(StrEnum):
    """What kind of thing goes."""

    CHECKPOINT = "checkpoint"
    BASE = "base"
    IMAGE = "image"
    INITRAMFS = "initramfs"
    MACHINE = "machine"
    FLAT = "flat"
    STRAY = "stray"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One thing that goes: its name, whose it is ("" for nobody's), the bytes of disk it frees."""

    kind: Waste
    name: str
    path: Path
    bytes: int
    why: str
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that could not be looked at or removed now, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What of a session's checkpoints stays, and which of its budgets are exceeded all the same."""

    session: str
    key: str
    kept: tuple[Verdict, ...]
    unmet: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """All that went, or, if it was `dry`, that would go."""

    removals: tuple[Removal, ...]
    left: tuple[Left, ...]
    stays: tuple[Stay, ...]
    dry: bool

    @property
    def freed_bytes(self) -> int:
        """Bytes of disk that are free now, or would be."""
        return sum(removal.bytes for removal in self.removals)
