"""The guest's relay and hook, as guestd sees them, with a stock ipykernel behind."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.front_end import in_a_loop
from tests.support.guest_kernel import GuestKernel

SEED = "ab" * 32


@asynccontextmanager
async def guest() -> AsyncGenerator[GuestKernel]:
    """A kernel behind the relay, ready."""
    kernel = GuestKernel()
    await kernel.open()
    try:
        yield kernel
    finally:
        await kernel.close()


async def run(kernel: GuestKernel, code: str, timeout_s: float = 120) -> dict[str, Any]:
    """Have guestd run code."""
    await kernel.order("run " + json.dumps({"id": 7, "code": code, "timeout_s": timeout_s}))
    word, rest = await kernel.answer()
    assert word == "ran"
    return json.loads(rest)


async def execute(kernel: GuestKernel, message_id: str, code: str) -> None:
    """Have the host execute code."""
    header = {
        "msg_id": message_id,
        "msg_type": "execute_request",
        "session": "s",
        "username": "u",
        "version": "5.3",
        "date": "2026-01-01T00:00:00Z",
    }
    content = json.dumps({"code": code}).encode()
    await kernel.send([b"shell", json.dumps(header).encode(), b"{}", b"{}", content])


async def until_idle(kernel: GuestKernel, message_id: str) -> list[tuple[bytes, str, Any]]:
    """What comes of the host's request: channel, type, content."""
    heard: list[tuple[bytes, str, Any]] = []
    while not {"execute_reply", "idle"} <= {kind for _, kind, _ in heard}:
        channel, header, parent, _, content, *_ = await kernel.receive()
        if json.loads(parent).get("msg_id") == message_id:
            said = json.loads(content)
            kind = said.get("execution_state", json.loads(header)["msg_type"])
            heard.append((channel, kind, said))
    return heard


def hook(kernel: GuestKernel, line: str) -> str:
    """Say something to the hook; its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(kernel.folder / "hook"))
        connection.sendall(line.encode() + b"\n")
        with connection.makefile() as answers:
            return answers.readline().rstrip("\n")


def wake(kernel: GuestKernel, branch: str, seed: str = "") -> tuple[str, str]:
    """Tell the kernel who it is; its nonce, and what it reseeded."""
    answer = hook(kernel, f"awake inc-1\t{branch}\t3\ts-1\tfork\t{seed}")
    word, _, rest = answer.partition(" ")
    assert word == "awake", answer
    nonce, _, reseeded = rest.partition("\t")
    return nonce, reseeded


@in_a_loop
async def test_guestd_runs_code_and_gets_text_errors_and_time_outs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with guest() as kernel:
        fine = await run(kernel, "print('said')\n6 * 7")
        assert (fine["id"], fine["status"], fine["text"]) == (7, "ok", "said\n42\n")
        wrong = await run(kernel, "1/0")
        assert wrong["status"] == "error"
        assert wrong["error"]["ename"] == "ZeroDivisionError"
        waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(.02)"
        slow = await run(kernel, waits, timeout_s=0.2)
        assert slow["status"] == "timeout"
        gate.touch()
        assert (await run(kernel, "1"))["text"] == "1\n"


@in_a_loop
async def test_what_guestd_runs_may_say_anything_and_the_next_is_run() -> None:
    async with guest() as kernel:
        odd = await run(kernel, "print('bad file: \\udcff')")
        assert odd["text"].startswith("bad file: ")
        wrong = await run(kernel, "raise ValueError('bad file: \\udcff')")
        assert wrong["error"]["evalue"].startswith("bad file: ")
        shown = "from IPython.display import display; display({'text/plain': None}, raw=True)"
        assert (await run(kernel, shown))["status"] == "ok"
        garbled = (
            "kernel = get_ipython().kernel; kernel.session.send(kernel.iopub_socket, 'stream',"
        )
        garbled += " {}, parent=kernel.get_parent()); None"
        assert (await run(kernel, garbled))["status"] == "ok"
        assert (await run(kernel, "1"))["text"] == "1\n"


@in_a_loop
async def test_what_guestd_runs_stays_unheard_by_the_host_and_leaves_no_trace_in_the_counter() -> (
    None
):
    async with guest() as kernel:
        await run(kernel, "print('between us')")
        await execute(kernel, "m", "print('for all')")
        heard = await until_idle(kernel, "m")
        printed = "".join(said["text"] for _, kind, said in heard if kind == "stream")
        assert printed == "for all\n"
        [reply] = [said for _, kind, said in heard if kind == "execute_reply"]
        assert reply["execution_count"] == 1
        assert kernel.inbox.empty()


@in_a_loop
async def test_what_threads_print_after_guestd_has_run_something_reaches_the_host(
    tmp_path: Path,
) -> None:
    async with guest() as kernel:
        gate = tmp_path / "gate"
        talk = "import os, threading, time\ndef talk():\n"
        talk += f"    while not os.path.exists({str(gate)!r}): time.sleep(.02)\n"
        # Written at once: a slow host would hear of a line and its end apart.
        talk += "    print('from a thread\\n', end='', flush=True)\n"
        talk += "threading.Thread(target=talk).start()"
        await execute(kernel, "m", talk)
        await until_idle(kernel, "m")
        assert (await run(kernel, "1"))["text"] == "1\n"
        gate.touch()
        said = await kernel.receive()
        assert json.loads(said[1])["msg_type"] == "stream"
        assert json.loads(said[4])["text"] == "from a thread\n"


@in_a_loop
async def test_what_an_overdue_run_of_guestds_still_says_stays_between_them() -> None:
    async with guest() as kernel:
        code = (
            "import time\nwhile 'over' not in globals(): print('on', flush=True); time.sleep(.01)"
        )
        assert (await run(kernel, code, timeout_s=0.2))["status"] == "timeout"
        await execute(kernel, "m", "1")
        kernel.signal(signal.SIGINT)
        heard = await until_idle(kernel, "m")
        assert "stream" not in [kind for _, kind, _ in heard]
        assert kernel.inbox.empty()


@in_a_loop
async def test_a_drained_relay_has_sent_what_it_says_and_is_quiet_until_it_may_go_on() -> None:
    async with guest() as kernel:
        await execute(kernel, "m", "print('before')")
        await until_idle(kernel, "m")
        await kernel.order(f"drain {kernel.sent}")
        word, sent = await kernel.answer()
        assert word == "drained"
        while kernel.received < int(sent):
            await kernel.receive()
        assert kernel.received == int(sent)
        await kernel.order("resume 9")
        kernel.generation, kernel.received = 9, 0
        await execute(kernel, "n", "print('after')")
        await until_idle(kernel, "n")


@in_a_loop
async def test_draining_waits_for_what_the_host_has_sent_and_the_kernel_gets_it() -> None:
    async with guest() as kernel:
        await kernel.order("drain 1")
        await asyncio.sleep(0.2)
        await execute(kernel, "m", "arrived = True")
        assert (await kernel.answer())[0] == "drained"
        await kernel.order("resume 1")
        kernel.generation = 1
        assert (await run(kernel, "arrived"))["text"] == "True\n"


@in_a_loop
async def test_frames_of_another_generation_are_dropped() -> None:
    async with guest() as kernel:
        await kernel.order("resume 5")
        await execute(kernel, "old", "stale = True")
        kernel.generation = 5
        await execute(kernel, "new", "'stale' in globals()")
        heard = await until_idle(kernel, "new")
        [result] = [said for _, kind, said in heard if kind == "execute_result"]
        assert result["data"]["text/plain"] == "False"


@in_a_loop
async def test_messages_larger_than_what_is_held_back_arrive_whole() -> None:
    async with guest() as kernel:
        await execute(kernel, "m", "print('x' * 20_000_000)\nprint('y' * 3)")
        heard = await until_idle(kernel, "m")
        text = "".join(said["text"] for _, kind, said in heard if kind == "stream")
        assert text == "x" * 20_000_000 + "\nyyy\n"


@in_a_loop
async def test_the_relay_ends_when_guestd_does() -> None:
    async with guest() as kernel:
        kernel.order_writer.close()
        await kernel.order_writer.wait_closed()
        assert await asyncio.to_thread(kernel.relay.wait, 120) == 0


@in_a_loop
async def test_a_woken_kernel_knows_who_it_is_and_proves_that_it_is_the_same() -> None:
    async with guest() as kernel:
        first, reseeded = wake(kernel, "ridge")
        assert reseeded == ""
        code = "import os; print(branch.name, branch.index, branch.incarnation, branch.session,"
        code += " os.environ['BRANCHPOINT_BRANCH'], os.environ['BRANCHPOINT_INDEX'])"
        assert (await run(kernel, code))["text"] == "ridge 3 inc-1 s-1 ridge 3\n"
        assert wake(kernel, "forest")[0] == first
        assert (await run(kernel, "branch.name"))["text"] == "'forest'\n"
        assert len(first) == 32


@in_a_loop
async def test_reseeding_reaches_what_is_loaded_and_is_a_function_of_the_seed() -> None:
    async with guest() as kernel:
        assert wake(kernel, "a", SEED)[1] == "random"
        await run(kernel, "import random, numpy.random")
        draw = "print(random.random(), numpy.random.rand())"
        assert wake(kernel, "a", SEED)[1] == "random,numpy"
        one = (await run(kernel, draw))["text"]
        wake(kernel, "a", SEED)
        assert (await run(kernel, draw))["text"] == one
        wake(kernel, "a", "cd" * 32)
        assert (await run(kernel, draw))["text"] != one
        wake(kernel, "a", SEED)
        wake(kernel, "a")
        assert (await run(kernel, draw))["text"] == one


@in_a_loop
async def test_a_branch_variable_of_the_users_is_left_alone_and_ours_is_out_of_sight() -> None:
    async with guest() as kernel:
        assert "branch" not in (await run(kernel, "%who"))["text"]
        await run(kernel, "branch = 'mine'")
        wake(kernel, "ridge")
        assert (await run(kernel, "branch"))["text"] == "'mine'\n"


@in_a_loop
async def test_the_hook_survives_what_it_does_not_understand() -> None:
    async with guest() as kernel:
        for garbage in ("", "what", "awake", "awake a\tb", "awake a\tb\t1\ts\tfork\tnothex"):
            assert hook(kernel, garbage).startswith("failed ")
        wake(kernel, "ridge")
