"""Output without end in a kernel whose relay is not heard: it waits, and nothing of it is lost."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.front_end import comes_true, in_a_loop
from tests.support.guest_kernel import GuestKernel

from branchpoint_guestkernel.backlog import Backlog
from branchpoint_guestkernel.output import JOINED_CHARACTERS, ROOM_BYTES

MB = 1 << 20
# What the kernel, libzmq, the sockets and the relay may hold between them, each its few MB.
HELD_BYTES = 100 * MB


@asynccontextmanager
async def guest() -> AsyncGenerator[GuestKernel]:
    """A kernel behind the relay, ready."""
    kernel = GuestKernel()
    await kernel.open()
    try:
        yield kernel
    finally:
        await kernel.close()


async def execute(kernel: GuestKernel, code: str, *, kind: str = "execute_request") -> None:
    """Have the host execute code."""
    header = {"msg_id": "m", "msg_type": kind, "session": "s", "username": "u", "version": "5.3"}
    content = json.dumps({"code": code, "allow_stdin": False}).encode()
    channel = b"shell" if kind == "execute_request" else b"control"
    await kernel.send([channel, json.dumps(header).encode(), b"{}", b"{}", content])


async def messages(kernel: GuestKernel) -> list[tuple[str, Any, Sequence[bytes]]]:
    """Type, content and buffers of all that comes of the code, to its idle."""
    heard: list[tuple[str, Any, Sequence[bytes]]] = []
    while not heard or heard[-1][1].get("execution_state") != "idle":
        _, header, parent, _, content, *buffers = await kernel.receive()
        if json.loads(parent).get("msg_id") == "m":
            heard.append((json.loads(header)["msg_type"], json.loads(content), buffers))
    return heard


async def texts(kernel: GuestKernel) -> list[str]:
    """The text of each stream message, to the code's end."""
    return [said["text"] for kind, said, _ in await messages(kernel) if kind == "stream"]


def memory_of(*processes: int) -> int:
    """What these processes have in memory, in bytes."""
    resident = [Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in processes]
    return sum(map(int, resident)) * 4096


async def waits_for_room(kernel: GuestKernel) -> None:
    """Until the kernel has published all it may and goes no further."""
    backlog = Backlog(kernel.folder / "c.json")
    before = -1
    while backlog.waiting_bytes <= ROOM_BYTES or backlog.waiting_bytes != before:
        before = backlog.waiting_bytes
        await asyncio.sleep(0.2)


PRINTS = "for number in range(200): print(f'{number:06}' + 'x' * 1_000_000)"
DISPLAYS = "for number in range(200): display({'a/b': f'{number:06}' + 'x' * 1_000_000}, raw=True)"
WRITES = "import os\nfor n in range(200_000):\n  for fd in (1, 2): os.write(fd, b'%09d\\n' % n)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WRITES!r}])"


NOTES_ITS_ANSWER = """
import pathlib
answers = get_ipython().kernel.control_handlers
async def answer(*asked, before=answers["usage_request"]):
    await before(*asked)
    pathlib.Path({place!r}).touch()
answers["usage_request"] = answer
"""


async def hold_back(kernel: GuestKernel, code: str) -> int:
    """Run it unheard until it waits, then listen; by how much memory had grown."""
    before = memory_of(kernel.kernel.pid, kernel.relay.pid)
    kernel.listening.clear()
    await execute(kernel, code)
    await waits_for_room(kernel)
    grown = memory_of(kernel.kernel.pid, kernel.relay.pid) - before
    kernel.listening.set()
    return grown


@in_a_loop
async def test_prints_that_nobody_hears_wait_and_arrive_whole_and_in_order() -> None:
    async with guest() as kernel:
        assert await hold_back(kernel, PRINTS) < HELD_BYTES
        text = "".join(await texts(kernel))
        assert text == "".join(f"{number:06}{'x' * 1_000_000}\n" for number in range(200))


@in_a_loop
async def test_displays_that_nobody_hears_wait_and_arrive_in_order() -> None:
    async with guest() as kernel:
        assert await hold_back(kernel, DISPLAYS) < HELD_BYTES
        heard = await messages(kernel)
        shown = [said["data"]["a/b"] for kind, said, _ in heard if kind == "display_data"]
        assert [int(each[:6]) for each in shown] == list(range(200))
        assert {each[6:] for each in shown} == {"x" * 1_000_000}


@asynccontextmanager
async def waiting_guest(first: str = "") -> AsyncGenerator[GuestKernel]:
    """A kernel in a cell that does something, prints without end, and waits for room."""
    async with guest() as kernel:
        kernel.listening.clear()
        await execute(kernel, f"{first}\nwhile True: print('x' * 1000)")
        await waits_for_room(kernel)
        yield kernel


@in_a_loop
async def test_a_kernel_that_waits_for_room_can_be_interrupted() -> None:
    async with waiting_guest() as kernel:
        kernel.signal(signal.SIGINT)
        kernel.listening.set()
        errors = [said["ename"] for kind, said, _ in await messages(kernel) if kind == "error"]
        assert errors == ["KeyboardInterrupt"]


@in_a_loop
async def test_a_kernel_that_waits_for_room_answers_on_control_before_its_output_is_through(
    tmp_path: Path,
) -> None:
    answered = tmp_path / "answered"
    async with waiting_guest(NOTES_ITS_ANSWER.format(place=str(answered))) as kernel:
        await execute(kernel, "", kind="usage_request")
        await comes_true(answered.exists)
        kernel.listening.set()
        heard = 0
        while (message := await kernel.receive())[0] != b"control":
            heard += len(message[4])
        assert heard < ROOM_BYTES
        assert b"usage_reply" in message[1]
        kernel.signal(signal.SIGINT)


@in_a_loop
async def test_what_a_child_writes_to_its_standard_files_arrives_whole() -> None:
    async with guest() as kernel:
        await execute(kernel, CHILD)
        written = "".join(f"{number:09}\n" for number in range(200_000))
        heard = {"stdout": "", "stderr": ""}
        # Some of it comes after the cell's idle, as with stock ipykernel.
        while sum(map(len, heard.values())) < 2 * len(written):
            _, header, _, _, content, *_ = await kernel.receive()
            if json.loads(header)["msg_type"] == "stream":
                said = json.loads(content)
                heard[said["name"]] += said["text"]
        same = [text == written for text in heard.values()]
        assert same == [True, True]


@in_a_loop
async def test_a_large_write_is_sent_in_messages_of_bounded_size() -> None:
    async with guest() as kernel:
        await execute(kernel, "print('x' * 50_000_000)")
        said = await texts(kernel)
        assert "".join(said) == "x" * 50_000_000 + "\n"
        assert max(map(len, said)) <= 2 * JOINED_CHARACTERS


@in_a_loop
async def test_many_large_writes_are_not_joined_into_one_message() -> None:
    async with guest() as kernel:
        await execute(kernel, "for _ in range(50): print('x' * (1 << 20))")
        said = await texts(kernel)
        assert "".join(said) == ("x" * MB + "\n") * 50
        assert max(map(len, said)) <= 2 * JOINED_CHARACTERS


@in_a_loop
async def test_many_small_prints_stay_few_messages() -> None:
    async with guest() as kernel:
        await execute(kernel, "for number in range(20_000): print(number)")
        said = await texts(kernel)
        assert "".join(said) == "".join(f"{number}\n" for number in range(20_000))
        assert len(said) < 2000


@in_a_loop
async def test_more_messages_than_libzmq_holds_by_default_arrive_though_the_relay_was_stopped() -> (
    None
):
    async with guest() as kernel:
        stop, go_on = (
            f"os.kill({kernel.relay.pid}, {int(number)})"
            for number in (signal.SIGSTOP, signal.SIGCONT)
        )
        show = "for number in range(5000): display(number)"
        await execute(kernel, f"import os, sys; {stop}\n{show}\nsys.stdout.flush(); {go_on}")
        heard = await messages(kernel)
        shown = [said["data"]["text/plain"] for kind, said, _ in heard if kind == "display_data"]
        assert shown == [str(number) for number in range(5000)]


@in_a_loop
async def test_the_reply_comes_after_the_large_display_that_came_before_it() -> None:
    async with guest() as kernel:
        await execute(kernel, "display({'a/b': 'x' * 60_000_000}, raw=True)")
        order: list[str] = []
        while "execute_reply" not in order:
            order.append(json.loads((await kernel.receive())[1])["msg_type"])
        assert "display_data" in order


@in_a_loop
async def test_a_forked_process_that_prints_is_heard() -> None:
    async with guest() as kernel:
        code = "import os\nif not (pid := os.fork()):\n    print('child', flush=True); os._exit(0)"
        await execute(kernel, f"{code}\n_ = os.waitpid(pid, 0)")
        while "child" not in str(await kernel.receive()):
            pass
