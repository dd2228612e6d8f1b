"""`%autocheckpoint`: saves the current branch after every so many executed cells."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from branchpoint_kernel.mistakes import told_of


@dataclass(frozen=True, slots=True)
class _Due:
    """A checkpoint that is to be taken: of which branch, and the header of the cell before it."""

    branch: str
    header: bytes


class AutoCheckpoint:
    """Counts cells and saves when it is time; the next cell waits for that.

    One that fails is said once, under the cell it was to follow; it is tried again after the next.
    """

    def __init__(
        self,
        save: Callable[[str], Awaitable[None]],
        complain: Callable[[bytes, str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.every = 0
        self.failure = ""
        self._save = save
        self._complain = complain
        self._on_change = on_change
        self._cells = 0
        self._due: _Due | None = None
        self._changed = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether the next cell must wait."""
        return self._due is not None

    def switch(self, every: int) -> None:
        """Save after every so many cells from now on; 0 is never."""
        self.every = every
        self.failure = ""
        self._cells = 0
        self._due = None
        self.look_again()

    def after_cell(self, branch: str, header: bytes) -> None:
        """A cell of the current branch has been run, well or not; `header` is its request's."""
        if not self.every:
            return
        self._cells += 1
        if self._cells >= self.every:
            self._due = _Due(branch, header)
            self.look_again()

    def look_again(self) -> None:
        """The cell may have come to its end."""
        self._changed.set()

    async def serve(self, is_free: Callable[[str], bool]) -> None:
        """Save whenever it is time and no cell runs in the branch that is to be saved, for ever."""
        while True:
            while self._due is None or not is_free(self._due.branch):
                self._changed.clear()
                await self._changed.wait()
            try:
                await self._save_now(self._due)
            finally:
                self._due = None
                self._on_change()

    async def _save_now(self, due: _Due) -> None:
        try:
            await self._save(due.branch)
        except Exception as error:
            told = told_of(error, "an automatic checkpoint")
            if str(told) != self.failure:
                hint = f" ({told.hint})" if told.hint else ""
                self._complain(due.header, f"autocheckpoint failed: {told}{hint}\n")
            self.failure = str(told)
        else:
            self._cells, self.failure = 0, ""
