"""One kernel's pump at a gate: what waits there is nothing that the kernel has been sent."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.fake_session import FakeSession
from tests.support.front_end import in_a_loop

from branchpoint_kernel.conversations import Silent
from branchpoint_kernel.messages import Channel, Message, made
from branchpoint_kernel.pump import Pump
from branchpoint_vmruntime.errors import BranchpointError, MachineEndedError, StorageError
from branchpoint_vmruntime.lineage import Cell


class Gated:
    """A KernelChannel whose machine is at rest until `gate` is set, and lost if `lost` is."""

    incarnation = "one"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.lost = False
        self.arrived: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def send(self, parts: Sequence[bytes]) -> None:
        """As KernelLink does: what has been let through waits no more."""
        await self.gate.wait()
        if self.lost:
            raise MachineEndedError("it is gone")

    async def receive(self) -> list[bytes]:
        """What a test has the kernel say."""
        return await self.arrived.get()


class ACell(Silent):
    """One that runs in the main shell."""

    occupies = True


class Hearing:
    """Counts how often something changed; nothing else is said here."""

    def __init__(self) -> None:
        self.changes = 0

    def on_change(self) -> None:
        self.changes += 1


def a_pump(channel: Gated, hearing: Any = None) -> Pump:
    def on_end(pump: Pump, error: BranchpointError) -> None:
        raise AssertionError

    async def settled() -> None: ...

    listener: Any = hearing or Hearing()
    return Pump(FakeSession().current, channel, listener, on_end, settled)


def a_cell(code: str = "x = 1") -> Message:
    content: dict[str, Any] = {"code": code, "silent": False}
    return made(Channel.SHELL, "execute_request", content)


async def in_a_moment() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


@in_a_loop
async def test_what_waits_at_the_gate_is_not_open_in_the_kernel_yet() -> None:
    channel, hearing = Gated(), Hearing()
    pump, cell = a_pump(channel, hearing), a_cell()
    asking = asyncio.create_task(pump.ask(cell, Silent()))
    await in_a_moment()
    assert pump.open.listing() == ()
    assert list(pump.conversations) == [cell.id]
    before = hearing.changes
    channel.gate.set()
    await asking
    assert [it.id for it in pump.open.listing()] == [cell.id]
    assert hearing.changes > before


@in_a_loop
async def test_what_is_called_off_at_the_gate_leaves_nothing_behind() -> None:
    channel = Gated()
    pump = a_pump(channel)
    asking = asyncio.create_task(pump.ask(a_cell(), Silent()))
    await in_a_moment()
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
    assert (pump.open.listing(), pump.conversations) == ((), {})


@in_a_loop
async def test_what_is_called_off_at_the_gate_holds_up_nobody() -> None:
    channel = Gated()
    pump = a_pump(channel)
    asking = asyncio.create_task(pump.ask(a_cell(), ACell()))
    await in_a_moment()
    free = asyncio.create_task(pump.wait_free())
    await in_a_moment()
    assert not free.done()
    asking.cancel()
    await free


@in_a_loop
async def test_what_cannot_be_sent_fails_and_leaves_nothing_behind() -> None:
    channel, question = Gated(), Silent()
    pump = a_pump(channel)
    channel.lost = True
    channel.gate.set()
    await pump.ask(a_cell(), question)
    with pytest.raises(MachineEndedError, match="it is gone"):
        await question.reply
    assert (pump.open.listing(), pump.conversations) == ((), {})


@in_a_loop
async def test_a_question_is_open_while_its_answer_waits_at_the_gate() -> None:
    channel = Gated()
    channel.gate.set()
    pump, cell = a_pump(channel), a_cell("input()")
    await pump.ask(cell, Silent())
    channel.gate.clear()
    pump.open.note_heard(
        made(Channel.STDIN, "input_request", {"prompt": "who? "}, parent=cell.header)
    )
    answer = made(Channel.STDIN, "input_reply", {"value": "Ada"})
    telling = asyncio.create_task(pump.tell(answer))
    await in_a_moment()
    assert "who?" in pump.open.listing()[0].question
    channel.gate.set()
    await telling
    assert pump.open.listing()[0].question == ""


class Broken(Hearing):
    """Cannot keep what it hears of."""

    def on_cell(self, pump: Pump, cell: Cell) -> None:
        raise StorageError("the store cannot be read")


@in_a_loop
async def test_a_reply_reaches_whoever_waits_though_its_cell_cannot_be_noted() -> None:
    channel = Gated()
    pump, cell, asked = a_pump(channel, Broken()), a_cell(), Silent()
    channel.gate.set()
    await pump.ask(cell, asked)
    running = asyncio.create_task(pump.run())
    reply = {"status": "ok", "execution_count": 1}
    channel.arrived.put_nowait(
        made(Channel.SHELL, "execute_reply", reply, parent=cell.header).parts
    )
    assert await asked.reply == reply
    running.cancel()


@in_a_loop
async def test_of_a_cell_is_heard_what_it_says_itself_and_no_answer_to_another_question() -> None:
    channel = Gated()
    channel.gate.set()
    pump, cell, other = a_pump(channel), a_cell(), made(Channel.CONTROL, "usage_request", {})
    await pump.ask(cell, ACell())
    await pump.ask(other, Silent())
    running = asyncio.create_task(pump.run())
    busy = {"execution_state": "busy"}
    channel.arrived.put_nowait(made(Channel.CONTROL, "usage_reply", {}, parent=other.header).parts)
    channel.arrived.put_nowait(made(Channel.IOPUB, "status", busy, parent=cell.header).parts)
    await pump.settled()
    assert (pump.heard, pump.heard_of_cell) == (2, 1)
    running.cancel()
