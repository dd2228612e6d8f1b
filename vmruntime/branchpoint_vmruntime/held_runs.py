"""Runs code in a branch for as long as the session's budgets let that branch run."""

import asyncio
import contextlib
from typing import Never, Protocol

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.results import RunResult

_DAY_S = 86400.0


class Budgets(Protocol):
    """What is used of `Stopping`."""

    def require(self, branch: str) -> None: ...
    async def hold(self, branch: str) -> Never: ...


class Unlimited:
    """Budgets that hold nobody."""

    def require(self, branch: str) -> None:
        """Every branch may run on."""

    async def hold(self, branch: str) -> Never:
        """For ever."""
        while True:
            await asyncio.Event().wait()


async def run_within(budgets: Budgets, branch: Branch, code: str) -> RunResult:
    """What code gave that was run in a branch.

    BudgetError if the branch may run no more meanwhile: the code is interrupted, and waited for.
    """
    running = asyncio.create_task(branch.run(code, timeout_s=_DAY_S))
    holding = asyncio.create_task(budgets.hold(branch.name))
    try:
        await asyncio.wait([running, holding], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            with contextlib.suppress(BranchpointError):
                await branch.interrupt()
            await asyncio.wait([running])
            holding.result()
        return await running
    finally:
        for task in (running, holding):
            task.cancel()
        await asyncio.gather(running, holding, return_exceptions=True)
