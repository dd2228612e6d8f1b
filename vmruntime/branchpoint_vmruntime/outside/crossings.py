"""Connections that are open now, so that those are ended that a change of policy forbids."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from branchpoint_vmruntime.errors import RefusedError
from branchpoint_vmruntime.outside.passage import Passage
from branchpoint_vmruntime.outside.policy import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crossing:
    branch: str
    host: str
    port: int
    passage: Passage
    method: str | None
    task: "asyncio.Task[object]"


class Crossings:
    """The open ones of all branches."""

    def __init__(self) -> None:
        self._open: dict[int, _Crossing] = {}

    @contextmanager
    def open(
        self, branch: str, host: str, port: int, passage: Passage, method: str | None = None
    ) -> Generator[None]:
        """The task that this is in may be cancelled while the block lasts.

        `method` is that of a request that is seen.
        """
        task = asyncio.current_task()
        assert task is not None
        key = id(passage)
        self._open[key] = _Crossing(
            branch=branch, host=host, port=port, passage=passage, method=method, task=task
        )
        try:
            yield
        finally:
            del self._open[key]

    def reconsider(self, policies: Policies, branch: str) -> None:
        """End those of the branch that may not go out any more."""
        for crossing in [it for it in self._open.values() if it.branch == branch]:
            try:
                policies.judge(branch, crossing.host, crossing.port, crossing.method)
            except RefusedError:
                crossing.passage.note = "cut off: it is no longer allowed"
                crossing.task.cancel()
