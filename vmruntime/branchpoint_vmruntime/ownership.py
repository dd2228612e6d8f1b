"""What has a session open, and whether it ends the session when it is asked to."""

from collections.abc import Callable
from dataclasses import dataclass

from branchpoint_vmruntime.control_facts import OwnerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What has a session open. `end` has it end the session; None: it does not do that when asked.

    `why_not` says so then, and `instead` what ends the session. Once it is `ended` nothing more is
    done. `alone`: if another process has that session open, none beside it is opened instead.
    """

    kind: OwnerKind = OwnerKind.SCRIPT
    alone: bool = False
    end: Callable[[], None] | None = None
    ended: Callable[[], bool] = bool
    why_not: str = "a script has that session open"
    instead: str = "it is closed when the script ends"


BY_KERNEL = Ownership(
    kind=OwnerKind.KERNEL,
    why_not="a notebook's kernel has that session open",
    instead="shut the kernel down in Jupyter; the session's checkpoints stay",
)
