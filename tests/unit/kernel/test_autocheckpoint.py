"""When a branch is saved by itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.front_end import in_a_loop

from branchpoint_kernel.autocheckpoint import AutoCheckpoint
from branchpoint_vmruntime.errors import StorageError


@dataclass
class Desk:
    """A notebook as far as automatic checkpoints know it."""

    auto: AutoCheckpoint = field(init=False)
    saved: list[str] = field(default_factory=list[str])
    said: list[tuple[bytes, str]] = field(default_factory=list[tuple[bytes, str]])
    full: bool = False
    busy: set[str] = field(default_factory=set[str])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.auto = AutoCheckpoint(self.save, self.complain, self.note_change)

    async def save(self, branch: str) -> None:
        if self.full:
            raise StorageError("the disk is full", hint="free some space")
        self.saved.append(branch)

    def complain(self, header: bytes, text: str) -> None:
        self.said.append((header, text))

    def note_change(self) -> None:
        self.changed.set()

    async def run_cell(self, header: bytes = b"{}") -> None:
        """A cell, and the checkpoint after it if there is to be one."""
        self.changed.clear()
        self.auto.after_cell("main", header)
        if self.auto.pending:
            await self.changed.wait()


@asynccontextmanager
async def open_desk() -> AsyncGenerator[Desk]:
    desk = Desk()
    serving = asyncio.create_task(desk.auto.serve(lambda branch: branch not in desk.busy))
    try:
        yield desk
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@in_a_loop
async def test_nothing_is_saved_until_it_is_switched_on() -> None:
    async with open_desk() as desk:
        await desk.run_cell()
        assert not desk.saved


@in_a_loop
async def test_every_nth_cell_is_followed_by_a_checkpoint() -> None:
    async with open_desk() as desk:
        desk.auto.switch(3)
        for _ in range(7):
            await desk.run_cell()
        assert desk.saved == ["main", "main"]


@in_a_loop
async def test_it_waits_until_the_cell_is_over() -> None:
    async with open_desk() as desk:
        desk.auto.switch(1)
        desk.busy.add("main")
        desk.auto.after_cell("main", b"{}")
        for _ in range(10):
            await asyncio.sleep(0)
        assert desk.auto.pending
        assert not desk.saved
        desk.busy.clear()
        desk.auto.look_again()
        await desk.changed.wait()
        assert desk.saved == ["main"]
        assert not desk.auto.pending


@in_a_loop
async def test_a_failure_is_said_once_and_tried_again_after_the_next_cell() -> None:
    async with open_desk() as desk:
        desk.auto.switch(2)
        desk.full = True
        for header in (b"1", b"2", b"3"):
            await desk.run_cell(header)
        assert desk.said == [(b"2", "autocheckpoint failed: the disk is full (free some space)\n")]
        desk.full = False
        await desk.run_cell()
        assert desk.saved == ["main"]


@in_a_loop
async def test_switching_it_off_calls_off_what_is_due() -> None:
    async with open_desk() as desk:
        desk.auto.switch(1)
        desk.busy.add("main")
        desk.auto.after_cell("main", b"{}")
        desk.auto.switch(0)
        assert not desk.auto.pending


@in_a_loop
async def test_a_branch_is_saved_whatever_runs_in_another() -> None:
    async with open_desk() as desk:
        desk.auto.switch(1)
        desk.busy.add("ridge")
        await desk.run_cell()
        assert desk.saved == ["main"]
