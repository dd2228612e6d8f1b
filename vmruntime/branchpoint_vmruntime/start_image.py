"""Where the fresh machines of a session start, and what can be done about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from branchpoint_vmruntime.lineage import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What fresh machines of a session start from: the checkpoint, and those it was baked upon.

    `chain` begins with `checkpoint` and ends with the base. `refused` is why a start that was
    baked cannot be loaded here, empty if it can: then they start from the base. `failed` is why the
    machine that the session began with started from the base, though this can be loaded.
    """

    checkpoint: Checkpoint
    chain: tuple[Checkpoint, ...]
    refused: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeReport:
    """What baking gave.

    `packages` is what it has beyond where it started from, as `name==version`. `left_out` are
    packages of the branch that no index was asked for: they came from a folder or an address.
    `output` is the end of what pip said.
    """

    checkpoint: Checkpoint
    packages: tuple[str, ...]
    left_out: tuple[str, ...]
    output: str
    total_ms: float


class StartImage(Protocol):
    """Where a session's fresh machines start. Whatever fails, that stays as it was."""

    def start(self) -> Start:
        """Where they start now."""
        ...

    async def bake(self, named: Sequence[str]) -> BakeReport:
        """Have them start with packages installed: those the current branch has, and those named.

        A fresh machine gets them from pip's index, which the branch must be let out to. Memory and
        files of the branch are not carried over. UsageError and MachineError, in words.
        """
        ...

    async def reset(self) -> Start:
        """Have them start from the base again; where they start now."""
        ...
