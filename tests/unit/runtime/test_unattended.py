"""What the machines of a session without a notebook say is taken in, what they ask is refused."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.errors import MachineEndedError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.unattended import Unattended


@dataclass
class Kernel:
    """A kernel's channel with what waits in it."""

    incarnation: str
    waiting: deque[list[bytes]] = field(default_factory=deque[list[bytes]])
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> list[bytes]:
        """The next one."""
        if self.waiting:
            return self.waiting.popleft()
        self.empty.set()
        await self.ended.wait()
        raise MachineEndedError("it has ended")


class Machines:
    """A session as far as its branches go."""

    def __init__(self) -> None:
        self.answers: dict[int, Mapping[str, Any]] = {}
        self.answered = asyncio.Event()
        self.there: list[SimpleNamespace] = []

    def add(self, name: str) -> Kernel:
        """A live branch whose kernel has said three things."""
        kernel = Kernel(f"i-{name}", deque([[b"iopub"]] * 3))
        branch = SimpleNamespace(
            name=name, state=BranchState.LIVE, kernel=kernel, calls=CallQueue(self._take)
        )
        self.there.append(branch)
        return kernel

    def branches(self) -> list[SimpleNamespace]:
        """All."""
        return self.there

    def as_session(self) -> Session:
        """For whoever wants one."""
        return cast("Session", self)

    def _take(self, number: int, answer: Mapping[str, Any]) -> None:
        self.answers[number] = answer
        self.answered.set()


@in_a_loop
async def test_what_kernels_say_does_not_pile_up() -> None:
    machines = Machines()
    first = machines.add("main")
    async with Unattended(machines.as_session()) as unattended:
        await first.empty.wait()
        second = machines.add("a")
        assert len(second.waiting) == 3
        unattended.adopt()
        await second.empty.wait()
    assert not first.waiting
    assert not second.waiting


@in_a_loop
async def test_what_a_program_asks_of_a_notebook_is_refused_in_words() -> None:
    machines = Machines()
    machines.add("main")
    async with Unattended(machines.as_session()):
        machines.there[0].calls.take({"id": 7, "request": {"op": "fork"}})
        await machines.answered.wait()
    answer = machines.answers[7]
    assert (answer["status"], answer["ename"]) == ("error", "UsageError")
    assert "no notebook" in answer["evalue"]
    assert "branchpoint.yaml" in answer["hint"]


@in_a_loop
async def test_a_machine_that_has_ended_is_no_concern_any_more() -> None:
    machines = Machines()
    first = machines.add("main")
    async with Unattended(machines.as_session()) as unattended:
        await first.empty.wait()
        first.ended.set()
        machines.there[0].calls.fail(MachineEndedError("it has ended"))
        machines.there[0].state = BranchState.PAUSED
        await asyncio.sleep(0)
        unattended.adopt()
        machines.there.clear()
        again = machines.add("main")
        unattended.adopt()
        await again.empty.wait()
