"""The order of shell requests."""

import asyncio
import json

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_kernel.messages import Channel, Request, message_from_parts
from branchpoint_kernel.shell_queue import ShellQueue


def a_request(name: str, kind: str = "execute_request") -> Request:
    header = json.dumps({"msg_id": name, "msg_type": kind}).encode()
    message = message_from_parts(Channel.SHELL, [header, b"{}", b"{}", b"{}"])
    return Request(identities=(), message=message, subshell=None)


class Guest:
    """Free or not, and with a cell running or not."""

    def __init__(self) -> None:
        self.free = True
        self.cell_runs = False

    def queue(self) -> ShellQueue:
        return ShellQueue(lambda: self.free, lambda: not self.cell_runs)


async def must_wait(queue: ShellQueue) -> "asyncio.Task[str]":
    async def take() -> str:
        return (await queue.take()).request.id

    waiting = asyncio.create_task(take())
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@in_a_loop
async def test_a_cell_waits_for_the_one_that_runs() -> None:
    guest = Guest()
    queue = guest.queue()
    guest.cell_runs = True
    queue.put(a_request("second"), local=False)
    waiting = await must_wait(queue)
    guest.cell_runs = False
    queue.look_again()
    assert await waiting == "second"


@in_a_loop
async def test_other_requests_pass_while_a_cell_runs_if_nothing_waits_before_them() -> None:
    guest = Guest()
    queue = guest.queue()
    guest.cell_runs, guest.free = True, False
    queue.put(a_request("complete", "complete_request"), local=False)
    assert (await queue.take()).request.id == "complete"


@in_a_loop
async def test_other_requests_wait_behind_a_cell_that_waits() -> None:
    guest = Guest()
    queue = guest.queue()
    guest.cell_runs = True
    queue.put(a_request("cell"), local=False)
    queue.put(a_request("comm", "comm_msg"), local=False)
    waiting = await must_wait(queue)
    guest.cell_runs = False
    queue.look_again()
    assert await waiting == "cell"
    assert (await queue.take()).request.id == "comm"


@in_a_loop
async def test_ours_waits_until_the_guest_has_nothing_open() -> None:
    guest = Guest()
    queue = guest.queue()
    guest.free = False
    queue.put(a_request("ours"), local=True)
    queue.put(a_request("behind"), local=False)
    waiting = await must_wait(queue)
    assert queue.holds_ours
    guest.free = True
    queue.look_again()
    assert await waiting == "ours"
    assert (await queue.take()).request.id == "behind"


@in_a_loop
async def test_dooming_marks_the_cells_that_wait_and_nothing_else() -> None:
    queue = Guest().queue()
    queue.put(a_request("a"), local=False)
    queue.put(a_request("b", "complete_request"), local=False)
    queue.put(a_request("c"), local=True)
    assert queue.doom() == 2
    assert queue.doom() == 0
    queue.put(a_request("later"), local=False)
    taken = [await queue.take() for _ in range(4)]
    assert [(each.request.id, each.doomed) for each in taken] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("later", False),
    ]


@in_a_loop
async def test_dooming_can_spare_what_the_host_answers() -> None:
    queue = Guest().queue()
    queue.put(a_request("a"), local=False)
    queue.put(a_request("b"), local=True)
    assert queue.doom(ours=False) == 1
    assert [(await queue.take()).doomed for _ in range(2)] == [True, False]


@in_a_loop
async def test_what_was_spared_is_doomed_no_sooner_than_what_is_answered_now_is_over() -> None:
    queue = Guest().queue()
    for name in ("given up", "ours", "behind"):
        queue.put(a_request(name), local=True)
    assert (await queue.take()).request.id == "given up"
    assert queue.holds_ours
    assert queue.doom(ours=False) == 0
    assert queue.doom() == 0
    assert not (await queue.take()).doomed
    assert queue.doom() == 1
    assert (await queue.take()).doomed
    assert not queue.holds_ours


@in_a_loop
async def test_a_doomed_cell_waits_its_turn_behind_what_the_guest_has_open() -> None:
    guest = Guest()
    queue = guest.queue()
    guest.free = False
    queue.put(a_request("a"), local=False)
    queue.doom()
    waiting = await must_wait(queue)
    guest.free = True
    queue.look_again()
    assert await waiting == "a"


@pytest.mark.parametrize("kind", ["kernel_info_request", "complete_request", "inspect_request"])
@in_a_loop
async def test_only_a_cell_of_ours_is_worth_giving_others_up_for(kind: str) -> None:
    queue = Guest().queue()
    queue.put(a_request("asked by a page", kind), local=True)
    assert not queue.holds_ours
    queue.put(a_request("a magic"), local=True)
    assert queue.holds_ours
    queue.doom()
    assert not queue.holds_ours
