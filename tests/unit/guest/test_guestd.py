"""guestd as a process, spoken to over the host's own link; what it would do to its system noted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket, socketpair
from typing import Any

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import GuestRefusedError, MachineEndedError
from branchpoint_vmruntime.link import ControlLink

ROOT = Path(__file__).parents[3]


class LoneGuestd:
    """A guestd and the link to it."""

    def __init__(
        self,
        link: ControlLink,
        process: subprocess.Popen[bytes],
        notes: Path,
        events: asyncio.Queue[dict[str, Any]],
    ) -> None:
        self.link = link
        self.process = process
        self.events = events
        self._notes = notes

    def noted(self) -> list[list[Any]]:
        """What it has done to its system so far."""
        return [json.loads(line) for line in self._notes.read_text().splitlines()]

    async def run(self, *argv: str, **fields: object) -> dict[str, Any]:
        """Run a command and wait for it."""
        return await self.link.ask("exec", {"argv": argv, "cwd": "/", **fields}, timeout_s=120)

    async def call(self, request: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A call by a process beside it, made and not answered."""
        address = self._notes.with_name("calls.sock")
        reader, writer = await asyncio.open_unix_connection(address)
        writer.write(json.dumps(request).encode() + b"\n")
        return reader, writer

    async def is_alive(self) -> bool:
        """Whether it still answers."""
        return "uptime_s" in await self.link.ask("ping", timeout_s=120)


def started(port: int, notes: Path, *more_ports: int) -> subprocess.Popen[bytes]:
    """The process."""
    argv = [sys.executable, "-m", "tests.support.lone_guestd", str(port), str(notes)]
    argv += map(str, more_ports)
    return subprocess.Popen(argv, cwd=ROOT, pass_fds=[port, *more_ports])


@asynccontextmanager
async def guestd(folder: Path, *, streams: socket | None = None) -> AsyncGenerator[LoneGuestd]:
    """One that has said that it is there, with a streamd beside it if there is a port for it."""
    notes = folder / "notes"
    notes.touch()
    ours, theirs = socketpair()
    ours.setblocking(False)  # noqa: FBT003
    process = started(theirs.fileno(), notes, *([streams.fileno()] if streams else []))
    theirs.close()
    if streams:
        streams.close()
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    link = await ControlLink.open(ours, events.put_nowait, folder / "console.log")
    try:
        assert (await events.get())["op"] == "booted"
        yield LoneGuestd(link, process, notes, events)
    finally:
        link.fail(MachineEndedError("the test is over"))
        process.kill()
        process.wait()


@in_a_loop
async def test_a_command_gives_its_status_and_what_it_wrote(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        result = await it.run("sh", "-c", "echo out; echo err >&2; exit 3")
        assert (result["status"], result["stdout"], result["stderr"]) == (3, "out\n", "err\n")


@in_a_loop
async def test_a_command_gets_its_input_and_environment(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        code = 'cat; echo "$HOME $NAME"'
        result = await it.run("sh", "-c", code, stdin="in\n", environment={"NAME": "ridge"})
        assert result["stdout"] == "in\n/root ridge\n"


@in_a_loop
async def test_commands_run_side_by_side_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        code = "until [ -e go ]; do sleep 0.01; done; echo gone"
        slow = asyncio.create_task(it.run("sh", "-c", code, cwd=str(tmp_path)))
        quick = await asyncio.gather(*(it.run("echo", str(number)) for number in range(5)))
        assert [result["stdout"] for result in quick] == [f"{number}\n" for number in range(5)]
        assert not slow.done()
        await it.run("touch", "go", cwd=str(tmp_path))
        assert (await slow)["stdout"] == "gone\n"


@in_a_loop
async def test_a_command_that_is_killed_has_its_signal_as_status(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        assert (await it.run("sh", "-c", "kill -9 $$"))["status"] == -signal.SIGKILL


@in_a_loop
async def test_output_beyond_the_limit_and_bytes_that_are_no_text_are_borne(
    tmp_path: Path,
) -> None:
    async with guestd(tmp_path) as it:
        code = "head -c 9000000 /dev/zero | tr '\\0' x; printf '\\377' >&2"
        result = await it.run("sh", "-c", code)
        assert len(result["stdout"]) == 8 << 20
        assert result["stderr"] == "\ufffd"


REFUSED: dict[str, tuple[tuple[str, dict[str, object]], str]] = {
    "a program that is not there": (("exec", {"argv": ["/no/such"], "cwd": "/"}), "No such file"),
    "a null byte": (("exec", {"argv": ["echo", "a\0b"], "cwd": "/"}), "null byte"),
    "no command at all": (("exec", {}), "argv"),
    "an order it does not know": (("dance", {}), "does not know 'dance'"),
    "an interrupt without a kernel": (("interrupt", {}), "no kernel to interrupt"),
    "code without a kernel": (("run", {"code": "1"}), "no kernel to run code in"),
    "a kernel without a command": (("start", {}), "identity"),
}


@pytest.mark.parametrize(("order", "why"), REFUSED.values(), ids=REFUSED.keys())
@in_a_loop
async def test_what_cannot_be_done_is_refused_in_words_and_it_lives_on(
    tmp_path: Path, order: tuple[str, dict[str, object]], why: str
) -> None:
    async with guestd(tmp_path) as it:
        with pytest.raises(GuestRefusedError, match=why):
            await it.link.ask(*order, timeout_s=120)
        assert await it.is_alive()


@in_a_loop
async def test_a_freeze_without_a_kernel_freezes_the_user_and_has_sent_nothing(
    tmp_path: Path,
) -> None:
    async with guestd(tmp_path) as it:
        reply = await it.link.ask("freeze", {"sent": 0}, timeout_s=120)
        assert reply["sent"] == 0
        assert set(reply["phases_ms"]) == {"freeze", "drain"}
        assert it.noted() == [["freeze"]]


@in_a_loop
async def test_a_freeze_that_does_not_succeed_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "stubborn").touch()
    async with guestd(tmp_path) as it:
        with pytest.raises(GuestRefusedError, match="could not be frozen within 5 s"):
            await it.link.ask("freeze", {"sent": 0}, timeout_s=120)
        assert await it.is_alive()


@in_a_loop
async def test_a_thaw_sets_the_clock_before_anyone_runs(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        before = time.time()
        await it.link.ask("thaw", timeout_s=120)
        (clock, told_s, _), thaw = it.noted()
        assert (clock, thaw) == ("clock", ["thaw"])
        assert before <= told_s <= time.time()


async def wake(it: LoneGuestd, generation: int, identity: str) -> list[str]:
    """Give the order to wake, as the host does."""
    it.link.generation = generation
    order = [str(generation), "ab" * 32, "", identity, "ridge-2"]
    order += ["fork", "inc-1", "ridge", "3", "s-1"]
    return await it.link.ask_to_wake(order, timeout_s=120)


@in_a_loop
async def test_a_wake_renews_clock_entropy_and_identity_before_anyone_runs(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        identity = json.dumps({"branch": "ridge_2"})
        await wake(it, 7, identity)
        clock, *rest = it.noted()
        assert clock[0] == "clock"
        assert rest == [["entropy", "ab" * 32], ["identity", identity, "ridge-2"], ["thaw"]]


@in_a_loop
async def test_a_woken_guest_answers_with_its_instants_in_order(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        nonce, reseeded, *instants = await wake(it, 7, "{}")
        assert (nonce, reseeded) == ("", "")
        assert [int(instant) for instant in instants] == sorted(map(int, instants))
        assert len(instants) == 4


@in_a_loop
async def test_a_woken_guest_speaks_under_its_new_generation(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        for generation in (7, 2**32 - 1):
            await wake(it, generation, "{}")
            assert await it.is_alive()


@in_a_loop
async def test_commands_after_a_wake_know_who_they_are(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        await wake(it, 7, json.dumps({"branch": "ridge_2", "index": 3}))
        result = await it.run("sh", "-c", 'echo "$BRANCHPOINT_BRANCH $BRANCHPOINT_INDEX"')
        assert result["stdout"] == "ridge_2 3\n"


@in_a_loop
async def test_a_child_that_nobody_waits_for_does_not_stay_behind(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        await it.run("sh", "-c", "exit 0")
        children = Path(f"/proc/{it.process.pid}/task/{it.process.pid}/children")
        assert await it.is_alive()
        assert os.path.exists(children)  # noqa: ASYNC240, PTH110
        assert children.read_text() == ""  # noqa: ASYNC240


CALL = {"do": "magic", "name": "checkpoint", "line": "a"}


@in_a_loop
async def test_a_call_is_told_to_the_host_and_its_answer_handed_back(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        reader, writer = await it.call(CALL)
        assert await it.events.get() == {"op": "call", "id": 1, "request": CALL}
        await it.link.ask("answer", {"call": 1, "answer": {"status": "ok"}}, timeout_s=120)
        assert json.loads(await reader.readline()) == {"status": "ok"}
        writer.close()


@in_a_loop
async def test_at_rest_no_call_is_told_and_after_it_every_one(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        await it.link.ask("freeze", {"sent": 0}, timeout_s=120)
        _, writer = await it.call(CALL)
        assert await it.is_alive()
        assert it.events.empty()
        await it.link.ask("thaw", timeout_s=120)
        assert (await it.events.get())["op"] == "call"
        writer.close()


@in_a_loop
async def test_who_waits_when_the_machine_wakes_is_told_so(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        reader, writer = await it.call(CALL)
        await it.events.get()
        await it.link.ask("freeze", {"sent": 0}, timeout_s=120)
        await wake(it, 7, "{}")
        answer = json.loads(await reader.readline())
        assert answer == {
            "status": "woken",
            "reason": "fork",
            "branch": "ridge",
            "index": 3,
            "incarnation": "inc-1",
            "session": "s-1",
        }
        writer.close()


@in_a_loop
async def test_calls_are_counted_on_in_every_incarnation(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        _, before = await it.call(CALL)
        assert (await it.events.get())["id"] == 1
        await wake(it, 7, "{}")
        _, after = await it.call(CALL)
        assert (await it.events.get())["id"] == 2
        before.close()
        after.close()


@in_a_loop
async def test_the_result_of_a_command_of_another_incarnation_is_nobodys(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        code = "echo $$ > pid; until [ -e go ]; do sleep 0.01; done; echo old"
        old = asyncio.create_task(it.run("sh", "-c", code, cwd=str(tmp_path)))
        await it.run("sh", "-c", "until [ -s pid ]; do sleep 0.01; done", cwd=str(tmp_path))
        await wake(it, 7, "{}")
        await it.run("touch", "go", cwd=str(tmp_path))
        # Until it has been reaped, which is when its result would be sent.
        reaped = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.01; done"
        await it.run("sh", "-c", reaped, cwd=str(tmp_path))
        assert await it.is_alive()
        assert not old.done()
        old.cancel()


@in_a_loop
async def test_a_kernel_without_a_hook_has_no_variables_to_tell_of(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        fields = {"repr_limit": 80, "timeout_s": 20.0}
        assert (await it.link.ask("variables", fields, timeout_s=120))["variables"] is None
