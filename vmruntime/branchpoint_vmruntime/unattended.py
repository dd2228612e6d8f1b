"""Looks after the machines of a session that no notebook drives: nothing they say piles up."""

import asyncio
from types import TracebackType
from typing import Any, Self

from branchpoint_vmruntime.branch_seam import CallChannel, KernelChannel
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session

_REFUSAL = {
    "status": "error",
    "ename": "UsageError",
    "evalue": "this session has no notebook, so nobody carries that out",
    "hint": "ask from outside: `branchpoint --help` lists what there is; what may leave, secrets"
    " and limits are said in the branchpoint.yaml it was created with: change that, then"
    " `branchpoint close` and `branchpoint resume`",
}


class Unattended:
    """While it is entered, takes in what kernels say and refuses what programs ask for, in words.

    A kernel's messages would stop it once enough of them waited. `adopt` takes up the machines that
    there are now.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watched: dict[str, list[asyncio.Task[None]]] = {}

    async def __aenter__(self) -> Self:
        self.adopt()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = [task for tasks in self._watched.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def adopt(self) -> None:
        """Look after machines that have come up, no more after those that have ended."""
        for incarnation, tasks in list(self._watched.items()):
            if all(task.done() for task in tasks):
                del self._watched[incarnation]
        for branch in self._session.branches():
            if branch.state is not BranchState.LIVE:
                continue
            incarnation = branch.kernel.incarnation
            if incarnation not in self._watched:
                self._watched[incarnation] = [
                    asyncio.create_task(_take_in(branch.kernel), name=f"kernel {branch.name}"),
                    asyncio.create_task(_refuse(branch.calls), name=f"calls {branch.name}"),
                ]


async def _take_in(kernel: KernelChannel) -> None:
    try:
        while True:
            await kernel.receive()
    except BranchpointError:
        return


async def _refuse(calls: CallChannel) -> None:
    refusal: dict[str, Any] = dict(_REFUSAL)
    try:
        while True:
            await calls.answer(await calls.next(), refusal)
    except BranchpointError:
        return
