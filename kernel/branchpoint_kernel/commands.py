"""What a user can ask of the lineage, as values. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Save the current branch."""

    label: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Make live branches."""

    count: int
    start: str | None
    names: tuple[str, ...]
    same_random: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Go back to a checkpoint; None is the branch's last. A preview only says what that does.

    The cells queued behind it are dropped, unless it keeps the queue.
    """

    target: str | None
    safety: bool
    preview: bool = False
    keep_queue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Go back by a number of cells. Preview and queue are as for a rollback."""

    cells: int
    preview: bool
    keep_queue: bool = False


@dataclass(frozen=True, slots=True)
class AutoCheckpoint:
    """Save the branch after every so many cells: 0 is never, None asks how it is."""

    every: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Compare two branches or checkpoints; without `after`, with the branch as it is now.

    With `text`, only that one file, line by line.
    """

    before: str
    after: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Branches:
    """List the branches."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """List the checkpoints."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Continue as another branch."""

    name: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Adopt a branch and park the rest."""

    name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Give branches up."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIn:
    """Run a cell in branches; `names` is None for every live one but the current."""

    names: tuple[str, ...] | None
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Show what a magic does; `paged` if the front end is to open its pager."""

    magic: str
    paged: bool


# What leaves every branch where it is.
Question = AutoCheckpoint | Diff | Branches | Checkpoints
Operation = Checkpoint | Fork | Rollback | Undo | Switch | Keep | Drop | Question
Command = Operation | RunIn | Explain
