"""Watches live branches, and stops one that has used up its time, or takes too much memory."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Never

from branchpoint_vmruntime.errors import BudgetError
from branchpoint_vmruntime.outside.limits import Spending

TICK_S = 1.0
# To read how much memory is a process's own takes milliseconds.
TICKS_TO_MEASURE = 5


def nobody_minds(_branch: str, _error: BudgetError) -> None:
    """Hears of the stops of a session that nobody drives cell by cell."""


class Stopping:
    """`on_stop` hears, once each time, that a branch may run no more.

    Time is each branch's own. Memory is the budget of all machines together: over it, the branch
    that has most for itself is stopped, until they take less. `own_bytes` measures live branches.
    """

    def __init__(
        self,
        spending: Spending,
        memory_bytes: int | None,
        own_bytes: Callable[[], Mapping[str, int]],
    ) -> None:
        self.on_stop: Callable[[str, BudgetError], None] = nobody_minds
        self._spending = spending
        self._memory_bytes = memory_bytes
        self._own_bytes = own_bytes
        self._largest: tuple[str, BudgetError] | None = None
        self._stopped: set[str] = set()

    def require(self, branch: str) -> None:
        """BudgetError if the branch may run no more."""
        self._spending.check_time(branch)
        if self._largest is not None and self._largest[0] == branch:
            raise self._largest[1]

    async def until_over(self, branch: str) -> Never:
        """BudgetError as soon as the branch may run no more."""
        while True:
            self.require(branch)
            await asyncio.sleep(TICK_S)

    async def watch(self, live: Callable[[], set[str]]) -> None:
        """Count time and measure memory of the branches that are live, for ever."""
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            ticks += 1
            if ticks % TICKS_TO_MEASURE == 0:
                self.weigh()
            for branch in live():
                self._spending.count_time(branch, TICK_S)
                self._tell(branch)

    def weigh(self) -> None:
        """Find out whether the machines take too much memory, and which takes most."""
        if self._memory_bytes is None:
            return
        own = self._own_bytes()
        total = sum(own.values())
        self._largest = None
        if total > self._memory_bytes:
            name = max(own, key=lambda it: own[it])
            self._largest = (name, self._too_much(name, own[name], total, self._memory_bytes))

    def _too_much(self, branch: str, own: int, total: int, limit: int) -> BudgetError:
        return BudgetError(
            f"the budget of {limit >> 20} MB of memory is used up: the machines have "
            f"{total >> 20} MB of their own, {branch!r} most with {own >> 20} MB",
            hint="go back with `%rollback`, `%drop` other branches, or raise `memory` under "
            "`budgets` in branchpoint.yaml and restart the kernel",
        )

    def _tell(self, branch: str) -> None:
        try:
            self.require(branch)
        except BudgetError as error:
            if branch not in self._stopped:
                self._stopped.add(branch)
                self.on_stop(branch, error)
        else:
            self._stopped.discard(branch)
