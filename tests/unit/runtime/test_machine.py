"""One machine's life as its owner sees it: rest, waking, orders, and every way to end."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.fake_guest import NONCE
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import MadeUp, made_up, wait_for_answers

from branchpoint_vmruntime.errors import (
    FreezeError,
    GuestRefusedError,
    GuestSilentError,
    KernelDiedError,
    WakeError,
)

HELLO = [b"shell", b"header", b"", b"{}", b"content"]
TRACE = [b"iopub", b"said"]


def asked(it: MadeUp) -> list[str]:
    """What the guest has been asked, in order."""
    return [message["op"] for message in it.guest.asked]


@in_a_loop
async def test_freezing_tells_the_guest_how_much_it_was_sent_and_waits_for_all_it_said(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        for _ in range(3):
            await it.machine.kernel.send(HELLO)
            it.guest.speak(TRACE)
        frozen = await it.machine.freeze(timeout_s=120)
        assert frozen.phases_ms == {"freeze": 1.0}
        assert it.guest.asked[0]["sent"] == it.guest.received == 3
        assert it.machine.kernel.received == 3


@in_a_loop
async def test_nothing_is_sent_from_freeze_to_thaw(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await it.machine.freeze(timeout_s=120)
        sending = asyncio.create_task(it.machine.kernel.send(HELLO))
        await asyncio.sleep(0.03)
        assert (sending.done(), it.guest.received) == (False, 0)
        await it.machine.thaw(timeout_s=120)
        await sending
        assert await it.guest.inbox.get() == HELLO


@in_a_loop
async def test_what_the_kernel_says_while_it_is_thawed_is_counted_at_the_next_freeze(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        for _ in range(3):
            await it.machine.freeze(timeout_s=120)
            it.guest.speak(TRACE)
            await it.machine.kernel.wait_received(it.guest.sent)
            await it.machine.thaw(timeout_s=120)
        await it.machine.freeze(timeout_s=120)
        assert it.machine.kernel.received == it.guest.sent == 3


async def send_still_works(it: MadeUp) -> None:
    """The machine runs on as before."""
    await it.machine.kernel.send(HELLO)
    while await it.guest.inbox.get() != HELLO:
        pass


@in_a_loop
async def test_a_guest_that_cannot_freeze_is_thawed_and_runs_on(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["freeze"] = {"error": "a process could not be frozen within 5 s"}
        with pytest.raises(FreezeError, match="a process could not be frozen") as caught:
            await it.machine.freeze(timeout_s=120)
        assert "runs on" in caught.value.hint
        assert asked(it) == ["freeze", "thaw"]
        await send_still_works(it)


@in_a_loop
async def test_a_guest_silent_at_a_freeze_is_thawed_and_runs_on(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["freeze"] = None
        with pytest.raises(FreezeError, match="did not answer 'freeze'"):
            await it.machine.freeze(timeout_s=0.05)
        assert asked(it) == ["freeze", "thaw"]
        await send_still_works(it)


@in_a_loop
async def test_messages_that_do_not_arrive_are_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made_up(tmp_path) as it:
        wait_for_answers(it, monkeypatch)
        it.guest.replies["freeze"] = {"sent": 1, "phases_ms": {}}
        with pytest.raises(FreezeError, match="messages of the kernel"):
            await it.machine.freeze(timeout_s=0.05)
        await send_still_works(it)


@in_a_loop
async def test_a_freeze_that_is_called_off_leaves_the_machine_running(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["freeze"] = None
        freezing = asyncio.create_task(it.machine.freeze(timeout_s=120))
        await it.guest.wait_asked("freeze")
        freezing.cancel()
        await asyncio.wait([freezing])
        assert asked(it) == ["freeze", "thaw"]
        await send_still_works(it)


@in_a_loop
async def test_running_on_after_a_capture_resumes_the_cpus_and_then_thaws(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        monitor = await it.machine.monitor()
        await it.machine.freeze(timeout_s=120)
        await monitor.stop()
        await it.machine.run_on()
        assert [name for name, _ in it.monitor.commands] == ["stop", "cont"]
        assert asked(it) == ["freeze", "thaw"]
        await send_still_works(it)


@in_a_loop
async def test_waking_gives_the_guest_entropy_a_name_and_its_identity(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await it.machine.wake(reseed=True, timeout_s=120)
        [(entropy, seed, identity, host_name, *names)] = it.guest.orders
        assert len(bytes.fromhex(entropy)) == len(bytes.fromhex(seed)) == 32
        assert entropy != seed
        assert json.loads(identity)["branch"] == "ridge_2"
        assert host_name == "ridge-2"
        assert names == ["start", "inc-1", "ridge_2", "3", "s-1"]


@in_a_loop
async def test_a_wake_that_keeps_the_generators_sends_no_seed(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await it.machine.wake(reseed=False, timeout_s=120)
        assert it.guest.orders[0][1] == ""


@in_a_loop
async def test_no_two_wakes_get_the_same_entropy_or_generation(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        generations: set[int] = set()
        for _ in range(3):
            await it.machine.wake(reseed=True, timeout_s=120)
            generations.add(it.guest.generation)
        secrets = {secret for order in it.guest.orders for secret in order[:2]}
        assert (len(generations), len(secrets)) == (3, 6)


@in_a_loop
async def test_the_guest_s_answer_to_waking_is_told(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        awake = await it.machine.wake(reseed=True, timeout_s=120)
        assert awake.nonce == NONCE
        assert awake.reseeded == ("random", "numpy")
        assert awake.phases_ms == {"clock": 8.0, "renew": 12.0, "kernel": 30.0}


@in_a_loop
async def test_what_the_kernel_says_before_its_waking_is_known_is_counted(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.speak(TRACE, generation=0)
        waking = asyncio.create_task(it.machine.wake(reseed=False, timeout_s=120))
        await it.guest.wait_asked("wake")
        it.guest.speak(TRACE)
        await waking
        await it.machine.freeze(timeout_s=120)
        assert it.machine.kernel.received == it.guest.sent == 1


@in_a_loop
async def test_what_an_older_incarnation_says_reaches_nobody(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await it.machine.wake(reseed=False, timeout_s=120)
        it.guest.speak([b"iopub", b"old"], generation=0)
        it.guest.say({"op": "kernel-ended"}, generation=0)
        it.guest.speak([b"iopub", b"new"])
        assert await it.machine.kernel.receive() == [b"iopub", b"new"]
        await it.machine.ping(timeout_s=120)
        assert it.machine.failure is None


@in_a_loop
async def test_a_machine_that_does_not_wake_is_a_wake_error(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["wake"] = None
        with pytest.raises(WakeError, match="did not wake"):
            await it.machine.wake(reseed=False, timeout_s=0.05)


@in_a_loop
async def test_a_guest_that_answers_its_wake_with_nonsense_is_a_wake_error(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.awake = ["random", "now", "then"]
        with pytest.raises(WakeError, match="did not wake"):
            await it.machine.wake(reseed=False, timeout_s=120)


@in_a_loop
async def test_a_kernel_is_started_with_its_command_and_may_be_sent_to_once_it_is_ready(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        starting = asyncio.create_task(
            it.machine.start_kernel(["python3", "-m", "x"], {"A": "b"}, timeout_s=120)
        )
        await it.guest.wait_asked("start")
        assert it.guest.asked[0]["argv"] == ["python3", "-m", "x"]
        assert it.guest.asked[0]["environment"] == {"A": "b"}
        assert it.guest.asked[0]["host_name"] == "ridge-2"
        await it.machine.ping(timeout_s=120)
        assert not starting.done()
        it.guest.say({"op": "kernel-ready"})
        await starting


@in_a_loop
async def test_a_kernel_that_dies_while_it_starts_is_a_kernel_died_error(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        starting = asyncio.create_task(it.machine.start_kernel(["x"], {}, timeout_s=120))
        await it.guest.wait_asked("start")
        it.guest.say({"op": "kernel-ended", "status": 1, "kills_for_memory": 0})
        with pytest.raises(KernelDiedError, match="status 1"):
            await starting


@in_a_loop
async def test_a_guest_that_never_boots_is_silent(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        with pytest.raises(GuestSilentError, match="'boot'"):
            await it.machine.wait_booted(timeout_s=0.05)
        it.guest.say({"op": "booted"})
        await it.machine.wait_booted(timeout_s=120)


@in_a_loop
async def test_code_is_run_and_its_error_told_apart_from_a_refusal(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        done = {"status": "error", "text": "", "elapsed_ms": 3.0}
        it.guest.replies["run"] = done | {"error": {"ename": "NameError", "evalue": "no x"}}
        result = await it.machine.run("x", timeout_s=120)
        assert (result.status, result.error_name, result.error_value) == (
            "error",
            "NameError",
            "no x",
        )
        it.guest.replies["run"] = {"error": "there is no kernel to run code in"}
        with pytest.raises(GuestRefusedError, match="no kernel"):
            await it.machine.run("x", timeout_s=120)


@in_a_loop
async def test_a_command_is_run_with_its_arguments_and_input(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["exec"] = {"status": 3, "stdout": "out", "stderr": "err"}
        result = await it.machine.execute(["cat", "-"], stdin="in")
        assert (result.status, result.stdout, result.stderr) == (3, "out", "err")
        assert it.guest.asked[0]["argv"] == ["cat", "-"]
        assert it.guest.asked[0]["stdin"] == "in"


@in_a_loop
async def test_the_user_s_variables_are_what_the_guest_says_they_are(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        x = {"name": "x", "type": "builtins.int", "size": 28, "repr": "42"}
        it.guest.replies["variables"] = {"variables": [x]}
        assert await it.machine.variables(repr_limit=100, timeout_s=120) == [x]
        assert it.guest.asked[0]["repr_limit"] == 100


@in_a_loop
async def test_of_a_kernel_that_cannot_be_asked_no_variables_are_known(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["variables"] = {"variables": None}
        assert await it.machine.variables(repr_limit=100, timeout_s=120) is None


@in_a_loop
async def test_variables_that_hang_are_a_silent_guest_that_answers_all_else(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["variables"] = None
        with pytest.raises(GuestSilentError, match="variables"):
            await it.machine.variables(repr_limit=100, timeout_s=0.05)
        await it.machine.ping(timeout_s=120)
