"""What a magic is: its name, what is typed after it, and what is said of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Takes(Enum):
    """What an argument names, and so what completion offers for it."""

    NOTHING = "nothing"
    TEXT = "text"
    NUMBER = "number"
    CHECKPOINT = "checkpoint"
    BRANCH = "branch"
    LIVE_BRANCH = "branch with a machine"
    RESTING_BRANCH = "branch without a machine"
    BRANCH_OR_CHECKPOINT = "branch or checkpoint"
    ON_OR_OFF = "on or off"
    FILE = "file"
    NEW_NAMES = "new names"
    BRANCH_OR_ALL = "branch or all"
    TO_ALLOW = "group or host"
    TO_DENY = "group or host that is allowed"
    SECRET = "secret"
    SOURCE = "source (env:VARIABLE, file:PATH or prompt)"
    LIMIT = "limit (such as tokens=400000)"
    KEY = "key"
    HOST_FILE = "file of this computer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Magic:
    """One magic. `usage` is what to type, `flags` what each flag takes.

    Where the first word says what to do, `actions` are those words, and what is named after each.
    """

    name: str
    usage: str
    summary: str
    details: str
    takes: Takes
    flags: Mapping[str, Takes] = field(default_factory=dict[str, Takes])
    actions: Mapping[str, Takes] = field(default_factory=dict[str, Takes])
    cell: bool = False

    @property
    def marked(self) -> str:
        """With its percent signs."""
        return f"%%{self.name}" if self.cell else f"%{self.name}"

    @property
    def help(self) -> str:
        """The whole of what there is to say."""
        return f"{self.usage}\n\n{self.summary}\n\n{self.details}\n"
