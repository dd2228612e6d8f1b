"""What a user can ask of the lineage, as values. Pure."""

from dataclasses import dataclass, field

from branchpoint_kernel.image_commands import AddToImage, ImageCommand
from branchpoint_vmruntime.outside.facts import Rule, SecretSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Save the current branch. Pinned, it is kept whatever else goes to make room."""

    label: str | None
    note: str
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotate:
    """Give a checkpoint another label or note, or both; what is None stays."""

    checkpoint: str
    label: str | None
    note: str | None


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
class ShowLineage:
    """Show the whole tree, with what each part of it has cost."""


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


@dataclass(frozen=True, slots=True)
class Pause:
    """Save a branch, the current one if none is named, and give back what its machine takes."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Resume:
    """Give a branch, the current one if none is named, its machine again."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ShowEgress:
    """List what may leave a branch, the current one if none is named."""

    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """Let something leave: groups by name, hosts as rules. `branch` may be all the live ones."""

    names: tuple[str | Rule, ...]
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """Let something leave no more. `branch` may be all the live ones."""

    names: tuple[str, ...]
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class ShowSecrets:
    """List the secrets, without their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSecret:
    """Bind a secret to hosts. Without a source it is a variable of this host, or is asked for.

    `header` None is the usual one. `value` is what was typed in.
    """

    name: str
    hosts: tuple[str, ...]
    header: str | None
    source: SecretSource | None
    asks: bool = False
    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RemoveSecret:
    """Forget a secret."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLedger:
    """List what has left, the newest entries alone unless `whole`."""

    since: str | None = None
    branch: str | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Say of what is unknown under a key that it took place, or that it may be done again."""

    key: str
    took_place: bool


@dataclass(frozen=True, slots=True)
class ShowCosts:
    """List what each branch has cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCosts:
    """Write what each operation and each branch has cost into files of the host.

    `force` replaces whatever is there.
    """

    file: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseLimit:
    """Set another limit."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ShowForwards:
    """List the ports that are forwarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Forward a port of the machine. `to` is the host's; `branch` None follows the current one."""

    port: int
    to: int | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopForward:
    """End a forward."""

    port: int
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Copy files of the host into a machine; `to` None is its home."""

    files: tuple[str, ...]
    to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """Copy files of a machine to the host; `to` None is the notebook's folder."""

    files: tuple[str, ...]
    to: str | None = None


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


Copy = Put | Get
# What opens the edge of the machines, or says what is true of what has passed it.
EdgeChange = Allow | Deny | AddSecret | RemoveSecret | Settle | RaiseLimit
OutsideQuestion = ShowEgress | ShowSecrets | ShowLedger | ShowCosts | ShowForwards
OutsideCommand = EdgeChange | OutsideQuestion | Forward | StopForward | SaveCosts
# What leaves every branch where it is.
Question = AutoCheckpoint | Diff | Branches | Checkpoints | ShowLineage
# Which branches have a machine, and which one the notebook continues as.
ComeAndGo = Switch | Keep | Drop | Pause | Resume
Change = Checkpoint | Fork | Rollback | Undo | ComeAndGo
# What is done one after another, whoever asks for it.
InTurn = Change | Annotate | Question | ImageCommand | OutsideCommand
Operation = InTurn | Copy
Command = Operation | RunIn | Explain


def needs_machine(command: Operation) -> bool:
    """Whether it is about the machine of the branch that asks, which must be awake for it."""
    match command:
        case Checkpoint() | Put() | Get():
            return True
        case Fork():
            return command.start is None
        case AutoCheckpoint():
            return bool(command.every)
        case _:
            return False


def is_stoppable(command: Operation) -> bool:
    """Whether it can be ended at any moment, and then nothing of it remains."""
    match command:
        case Rollback(preview=True) | Undo(preview=True) | Diff() | AddToImage():
            return True
        case _:
            return False
