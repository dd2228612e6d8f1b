"""Runs code in a branch for as long as the session's budgets let that branch run."""

import asyncio
import contextlib
from typing import Never, Protocol

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.results import RunResult

_DAY_S = 86400.0


class RunBudget(Protocol):
    """What is used of `Stopping`."""

    def require(self, branch: str) -> None: ...
    async def until_over(self, branch: str) -> Never: ...


async def run_within(budget: RunBudget, branch: Branch, code: str) -> RunResult:
    """What code gave that was run in a branch.

    BudgetError if the branch may run no more meanwhile: the code is interrupted, and waited for.
    """
    running = asyncio.create_task(branch.run(code, timeout_s=_DAY_S))
    watching = asyncio.create_task(budget.until_over(branch.name))
    try:
        await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            with contextlib.suppress(BranchpointError):
                await branch.interrupt()
            await asyncio.wait([running])
            watching.result()
        return await running
    finally:
        for task in (running, watching):
            task.cancel()
        await asyncio.gather(running, watching, return_exceptions=True)
