"""Lends branches of an open session to other notebooks, and takes them back once those are closed.

Nothing tells of their end, so an open lender looks, twice a second, as long as it has lent any.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from branchpoint_vmruntime.borrowers import Borrowers
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.errors import (
    BranchpointError,
    SessionBusyError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind, SessionRecord
from branchpoint_vmruntime.loan import require_lendable
from branchpoint_vmruntime.pausing import Pausing
from branchpoint_vmruntime.register import Register

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5


class Lending:
    """Joins the register and what can be seen of borrowers. Only its session calls it.

    `busy` is the session's own lock, held while one of its operations is under way. `came_back` are
    the branches, each with the key of a notebook that was never opened, that are here again because
    somebody asked for them.
    """

    def __init__(
        self, register: Register, pausing: Pausing, borrowers: Borrowers, busy: asyncio.Lock
    ) -> None:
        self._register = register
        self._pausing = pausing
        self._borrowers = borrowers
        self._busy = busy
        self._task: asyncio.Task[None] | None = None
        # Why what was lent could not be taken back, as it was told of last.
        self._told: dict[str, str] = {}
        self.came_back: list[tuple[str, str]] = []

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Around each operation: others wait, and what was given back is the session's again."""
        async with self._busy:
            self.look()
            yield

    def start(self) -> None:
        """Begin to look now and then."""
        self._task = asyncio.create_task(self._look_now_and_then(), name="lent branches")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def look(self) -> None:
        """Take back the branches whose borrowers nobody has open. The caller keeps others off.

        What cannot be taken back now, as on a full disk, is the next time; what the caller is about
        to do is not held up by it.
        """
        for branch in self._lent():
            self._look_at_one(branch)

    async def lend(self, branch: OwnedBranch, key: str, *, again: bool) -> SessionRecord:
        """Save a branch that lives, and put it on record as lent to the session of that key.

        Whatever fails, it is this session's still, paused at the worst. With `again` the session of
        that key, which is being opened, asks for what it has had.
        """
        began = time.monotonic()
        # Before anything is saved: a key that cannot be had stops nothing.
        borrower = self._register.borrower_for(key, branch)
        if branch.state is BranchState.LIVE:
            if again:
                raise UsageError(
                    f"{branch.name} has gone on here since", hint="fork from what was saved of it"
                )
            await self._pausing.put_away(branch, CheckpointKind.PAUSED)
            borrower = self._register.borrower_for(key, branch)
        head = self._register.tree().checkpoint(branch.record.head)
        require_lendable(branch.record, head)
        with self._kept_closed(borrower, again=again):
            self._register.lend(branch, borrower)
            if not again:
                self._borrowers.expect(self._register.record.id, borrower.id)
        total_ms = round(1000 * (time.monotonic() - began), 3)
        self._register.note("lend", branch.name, head, total_ms, {})
        return borrower

    def here(self, branch: OwnedBranch) -> OwnedBranch:
        """The branch; UsageError, naming the notebook that has it, if it is lent.

        One that nobody has come for yet is taken back. StorageError if nobody has it any more, and
        it cannot be.
        """
        if branch.state is BranchState.LENT:
            self._look_at_one(branch, asked=True)
        if branch.state is BranchState.LENT:
            if why := self._told.get(branch.name):
                raise StorageError(
                    f"{branch.name} cannot be taken back from its notebook yet: {why}",
                    hint="that is tried again with whatever is done next",
                )
            borrower = self._register.borrower(branch)
            raise is_elsewhere(branch.name, borrower.key if borrower else "")
        return branch

    @contextmanager
    def _kept_closed(self, borrower: SessionRecord, *, again: bool) -> Generator[None]:
        """Nobody opens the borrower meanwhile; it need not be held if it is whoever asks."""
        if again or not self._register.is_on_record(borrower):
            yield
            return
        with self._borrowers.gone(borrower.id, borrower.key) as closed:
            if not closed:
                raise SessionBusyError(
                    f"{borrower.key!r} is open already", hint="close that notebook first"
                )
            yield

    def _lent(self) -> list[OwnedBranch]:
        return [it for it in self._register.branches() if it.state is BranchState.LENT]

    def _look_at_one(self, branch: OwnedBranch, *, asked: bool = False) -> None:
        try:
            self._look_at(branch, asked=asked)
        except (BranchpointError, OSError) as error:
            if self._told.get(branch.name) != str(error):
                log.warning("branch %s cannot be taken back yet: %s", branch.name, error)
            self._told[branch.name] = str(error)

    def _look_at(self, branch: OwnedBranch, *, asked: bool) -> None:
        borrower = self._register.borrower(branch)
        if borrower is None:
            # It was removed with all that was its own: this one stands where it was lent.
            self._take_back(branch)
            return
        with self._borrowers.gone(borrower.id, borrower.key, asked=asked) as gone:
            if gone:
                self._take_back(branch)
                if asked:
                    self.came_back.append((branch.name, borrower.key))

    def _take_back(self, branch: OwnedBranch) -> None:
        self._register.take_back(branch)
        head = self._register.tree().checkpoint(branch.record.head)
        self._told.pop(branch.name, None)
        self._register.note("return", branch.name, head, 0.0, {})

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._lent():
                try:
                    async with self.alone():
                        pass
                except Exception:
                    log.exception("what was lent could not be looked for")


def is_elsewhere(branch: str, key: str) -> UsageError:
    """The error that names the notebook in which a branch carries on.

    >>> print(is_elsewhere("ridge", "/notes/demo-ridge.ipynb"))
    ridge is open as 'demo-ridge.ipynb'; close it first
    """
    name = key.rpartition("/")[2] or key
    return UsageError(
        f"{branch} is open as {name!r}; close it first",
        hint="once that notebook's kernel is shut down the branch is here again",
    )
