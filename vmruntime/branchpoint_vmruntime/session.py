"""One notebook's tree of checkpoints and branches, and what can be done with it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.changes import Changes
from branchpoint_vmruntime.lineage import (
    Cell,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.reports import (
    ForkReport,
    KeepReport,
    PauseReport,
    ResumeReport,
    RollbackReport,
)
from branchpoint_vmruntime.start_image import StartImage

# More at once than a host that runs notebooks can be expected to hold.
MAX_FORKS = 64

Witness = Callable[[str], Awaitable[Moment]]
Turn = Callable[[], AbstractAsyncContextManager[None]]
Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


async def nothing_known(_branch: str) -> Moment:
    """The witness of a session that nobody drives cell by cell."""
    return Moment()


def nothing_runs(_branch: str) -> bool:
    """Of a session that nobody drives cell by cell."""
    return False


def nothing_ran(_branch: str) -> Sequence[Cell]:
    """Of a session that nobody drives cell by cell."""
    return ()


def nothing_undone() -> Sequence[Cell]:
    """Of a session that nobody drives cell by cell."""
    return ()


def nothing_died() -> Sequence[str]:
    """Of a session that nobody drives cell by cell."""
    return ()


def nobody_hears(_report: ResumeReport) -> None:
    """Of a session whose driver need not know of the machines there are."""


class Session(Protocol):
    """One notebook's tree.

    Operations are serialised; each leaves the lineage whole or untouched.

    `turn` surrounds whatever is done to the session that its driver did not ask for: what comes in
    at the control socket, and pauses of its own accord. The driver has it wait for its own
    operations, and takes up the machines there are afterwards. `executes` tells whether a cell runs
    on a branch, which is not paused then. `on_resumed` is told of each branch that got its machine
    again without having been asked for by `resume`.

    `witness` is asked, with a branch's name, what is executing there, for every checkpoint that is
    taken. It is asked while that machine is at rest, when every message of its kernel has arrived
    at the channel. A witness that fails or takes over 5 s is one that knows nothing.

    `ran` tells which cells were run on a branch since its last checkpoint, oldest first; `undone`
    which were run and may be on no record: what a rollback took back that was not saved; `died` the
    ids of those whose machine ended first.

    `came_back` are branches, each with the key of the notebook it was lent to and that was never
    opened, that are here again because something was wanted of them. Its driver tells of them, and
    takes them off the list.

    `notices` say in words what it did by itself, such as removing checkpoints that its store has no
    room for; told and taken off likewise.

    `changes` tells of everything that is shown of it; its driver notes there what only it knows of,
    such as that a cell has been run. `answers` is what can be asked for at its control socket, by
    the name of the operation; its driver may add to it.
    """

    witness: Witness
    turn: Turn
    executes: Callable[[str], bool]
    on_resumed: Callable[[ResumeReport], None]
    ran: Callable[[str], Sequence[Cell]]
    undone: Callable[[], Sequence[Cell]]
    died: Callable[[], Sequence[str]]
    changes: Changes
    answers: dict[str, Answer]
    came_back: list[tuple[str, str]]
    notices: list[str]

    @property
    def outside(self) -> Outside:
        """Its edge: what may leave, what has left, what it cost."""
        ...

    @property
    def record(self) -> SessionRecord: ...
    @property
    def image(self) -> StartImage: ...
    @property
    def loan(self) -> Loan | None:
        """How it continues a branch of another session; None if it does not."""
        ...

    @property
    def current(self) -> Branch: ...
    def branches(self) -> Sequence[Branch]:
        """Every branch on record, dropped ones too, in order of making."""
        ...

    def branch(self, name: str) -> Branch:
        """UnknownNameError if there is none."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session, the base first, oldest first."""
        ...

    def path(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoint itself, its parent, and so on to the root."""
        ...

    def find(self, name: str | None, *, branch: str | None = None) -> Checkpoint:
        """By label (the newest that bears it) or by the start of its id.

        None: the branch's last; without a branch, the current one's.
        """
        ...

    def room(self) -> int:
        """How many machines more the host's memory and the manifest's budgets have room for now."""
        ...

    def operations(self, *, newest: int | None = None) -> list[Operation]:
        """What was done, oldest first, with what it cost: all of it, or the newest so many."""
        ...

    def key_of(self, session: SessionId) -> str:
        """The key of a session of the same home, such as one a branch is lent to; "" if none is."""
        ...

    async def checkpoint(
        self,
        label: str | None = None,
        *,
        note: str = "",
        branch: str | None = None,
        kind: CheckpointKind = CheckpointKind.USER,
    ) -> Checkpoint:
        """Save a branch, the current one if none is named; it runs on."""
        ...

    async def fork_point(self, branch: str | None = None) -> Checkpoint:
        """Save a branch to fork from it, as often as wanted; it runs on."""
        ...

    async def fork(
        self,
        count: int,
        *,
        start: Checkpoint | str | None = None,
        names: Sequence[str] = (),
        same_random: bool = False,
        branch: str | None = None,
        first_index: int = 1,
    ) -> ForkReport:
        """Live branches from a checkpoint, or from this very moment of a branch.

        They are numbered from `first_index`, as `branch.index` tells them. UsageError if there is
        not the room for them.
        """
        ...

    async def rollback(
        self,
        target: Checkpoint | str | None = None,
        *,
        safety: bool = True,
        branch: str | None = None,
    ) -> RollbackReport: ...
    async def switch(self, name: str) -> Branch:
        """Continue as another branch; a parked one is woken from its head."""
        ...

    async def keep(self, name: str) -> KeepReport:
        """Continue as another branch and park every other; one that cannot be saved runs on."""
        ...

    async def pause(self, name: str | None = None) -> PauseReport:
        """Save a branch, the current one if none is named, and end its machine until it is wanted.

        UsageError while a cell runs on it, and if it has no machine.
        """
        ...

    async def resume(self, name: str | None = None) -> ResumeReport:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        ...

    async def awake(self, name: str | None = None) -> Branch:
        """The branch, the current one if none is named; one that is paused is resumed first."""
        ...

    async def lend(self, name: str, key: str, *, again: bool = False) -> SessionRecord:
        """Save a branch and have it carry on in a session of that key, which starts at its head.

        It is LENT until nobody has that session open; then it stands where that one has come to.
        UsageError if it is current, dropped or lent already, and while a cell runs on it.
        NameTakenError if the key is that of a session with a tree of its own. With `again` the
        session of that key, which is being opened, asks for the branch that it has had.
        """
        ...

    def pins(self) -> set[CheckpointId]:
        """The checkpoints of the session that are to be kept whatever else goes."""
        ...

    async def pin(self, checkpoint: Checkpoint, *, pinned: bool = True) -> None:
        """Keep a checkpoint whatever else goes, or no longer."""
        ...

    async def annotate(
        self, checkpoint: Checkpoint, *, label: str | None = None, note: str | None = None
    ) -> Checkpoint:
        """Give a checkpoint another label or note, or both; what is None stays. As it is now.

        UsageError for a label that cannot be one, a note that is too long, and a checkpoint that
        is not the session's own.
        """
        ...

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Remove checkpoints with their files; those that went.

        One that others descend from, that a branch stands on or that is pinned stays.
        """
        ...

    async def drop(self, names: Sequence[str]) -> Sequence[Branch]: ...
    def peek(self, checkpoint: Checkpoint) -> AbstractAsyncContextManager[Branch]:
        """A machine woken from a checkpoint to look into it, named "peek"; it ends on leaving.

        It is on no record and is no branch of the session. Calls that wait in it go on waiting.
        """
        ...
