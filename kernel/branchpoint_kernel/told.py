"""What an operation has to say, before it is put into words and a record."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from branchpoint_kernel.drawing import Picture
from branchpoint_kernel.rendering import Line
from branchpoint_vmruntime.lineage import Checkpoint


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to show, and what a record says of it under which `op`.

    `picture` makes another display, below the first, where one can be shown.
    """

    op: str
    lines: Sequence[Line]
    more: Mapping[str, Any]
    checkpoint: Checkpoint | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    total_ms: float | None = None
    picture: Callable[[], Awaitable[Picture]] | None = None
