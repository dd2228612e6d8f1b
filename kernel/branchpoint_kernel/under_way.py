"""Tells whoever looks at the session what is done to it, and which of its branches run code."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from branchpoint_kernel import commands
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.unfinished_cells import UnfinishedCells
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session


def doing(
    session: Session, command: commands.InTurn, branch: str | None
) -> AbstractContextManager[None]:
    """Around a command that changes branches: it is under way, and named as at the socket."""
    match command:
        case commands.Rollback(preview=True) | commands.Undo(preview=True):
            return nullcontext()
        case commands.Checkpoint() | commands.Fork() | commands.Rollback() | commands.Undo():
            about = branch
        case commands.Drop(names=names):
            about = names[0]
        case commands.Switch() | commands.Keep() | commands.Pause() | commands.Resume():
            about = command.name or branch
        case _:
            return nullcontext()
    op = type(command).__name__.lower()
    return session.changes.doing(op, about or session.current.name)


class Busyness:
    """Which branches run code, and which cells; whoever shows the session is told of changes.

    `folder` is where the session keeps what a process after this one has to know.
    """

    def __init__(self, session: Session, pumps: Pumps, folder: Path | None) -> None:
        self._session = session
        self._pumps = pumps
        self._unfinished = UnfinishedCells(folder)
        session.died = self._unfinished.died
        self._busy: frozenset[str] = frozenset()

    def look(self) -> None:
        """It may have changed."""
        live = (it.name for it in self._session.branches() if it.state is BranchState.LIVE)
        busy = frozenset(name for name in live if self._session.executes(name))
        if self._unfinished.look(self._pumps) or busy != self._busy:
            self._busy = busy
            self._session.changes.note()
