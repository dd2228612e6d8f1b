"""The order of shell requests."""

import asyncio
import json

from tests.support.front_end import in_a_loop

from branchpoint_kernel.messages import Channel, Request, message_from_parts
from branchpoint_kernel.shell_queue import ShellQueue


def a_request(name: str, kind: str = "execute_request") -> Request:
    header = json.dumps({"msg_id": name, "msg_type": kind}).encode()
    message = message_from_parts(Channel.SHELL, [header, b"{}", b"{}", b"{}"])
    return Request(identities=(), message=message, subshell=None)


class Guest:
    """Free or not."""

    def __init__(self) -> None:
        self.free = True

    def is_free(self) -> bool:
        return self.free


@in_a_loop
async def test_the_guests_requests_pass_at_once_and_ours_wait_until_it_is_free() -> None:
    guest = Guest()
    queue = ShellQueue(guest.is_free)
    guest.free = False
    queue.put(a_request("plain"), local=False)
    queue.put(a_request("ours"), local=True)
    queue.put(a_request("behind"), local=False)
    assert (await queue.take()).request.id == "plain"
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert queue.waits_for_guest
    guest.free = True
    queue.look_again()
    assert (await waiting).request.id == "ours"
    assert (await queue.take()).request.id == "behind"


@in_a_loop
async def test_dooming_marks_the_cells_that_wait_and_nothing_else() -> None:
    queue = ShellQueue(lambda: True)
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
async def test_a_doomed_cell_waits_its_turn_behind_what_the_guest_has_open() -> None:
    guest = Guest()
    queue = ShellQueue(guest.is_free)
    guest.free = False
    queue.put(a_request("a"), local=False)
    queue.doom()
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    guest.free = True
    queue.look_again()
    assert (await waiting).doomed
