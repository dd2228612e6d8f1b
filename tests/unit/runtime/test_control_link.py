"""The control link: each question gets its own answer, or an error that says why not."""

import asyncio
import time

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.links import CONSOLE, linked, synchronise

from branchpoint_guest import wire
from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    MachineError,
)


@in_a_loop
async def test_a_question_reaches_the_guest_with_its_fields_and_is_answered() -> None:
    async with linked() as ends:
        ends.guest.replies["start"] = {"pid": 42}
        reply = await ends.control.ask("start", {"argv": ["python3"]}, timeout_s=120)
        assert reply["pid"] == 42
        assert ends.guest.asked[0]["argv"] == ["python3"]


@in_a_loop
async def test_answers_find_their_questions_in_whatever_order_they_come() -> None:
    async with linked() as ends:
        ends.guest.replies |= {"slow": None, "quick": {"which": "quick"}}
        slow = asyncio.create_task(ends.control.ask("slow", timeout_s=120))
        await asyncio.sleep(0)
        assert (await ends.control.ask("quick", timeout_s=120))["which"] == "quick"
        number = ends.guest.asked[0]["id"]
        ends.guest.say({"op": "reply", "id": number, "which": "slow"})
        assert (await slow)["which"] == "slow"


@in_a_loop
async def test_a_refusal_is_an_error_in_the_guest_s_words() -> None:
    async with linked() as ends:
        ends.guest.replies["interrupt"] = {"error": "there is no kernel to interrupt"}
        with pytest.raises(GuestRefusedError, match="there is no kernel to interrupt"):
            await ends.control.ask("interrupt", timeout_s=120)


@in_a_loop
async def test_silence_is_an_error_that_names_the_question_and_the_console() -> None:
    async with linked() as ends:
        ends.guest.replies["ping"] = None
        with pytest.raises(GuestSilentError, match=r"'ping' within 0\.05 s") as caught:
            await ends.control.ask("ping", timeout_s=0.05)
        assert caught.value.console == CONSOLE
        assert caught.value.hint


@in_a_loop
async def test_an_answer_that_comes_too_late_is_taken_for_no_other() -> None:
    async with linked() as ends:
        ends.guest.replies["ping"] = None
        with pytest.raises(GuestSilentError):
            await ends.control.ask("ping", timeout_s=0.05)
        await ends.guest.wait_asked("ping")
        ends.guest.say({"op": "reply", "id": ends.guest.asked[0]["id"], "late": True})
        ends.guest.replies["ping"] = {"late": False}
        assert (await ends.control.ask("ping", timeout_s=120))["late"] is False


@in_a_loop
async def test_a_question_given_up_leaves_the_link_usable() -> None:
    async with linked() as ends:
        ends.guest.replies["freeze"] = None
        waiting = asyncio.create_task(ends.control.ask("freeze", {"sent": 0}, timeout_s=120))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await synchronise(ends)


@in_a_loop
async def test_the_guest_is_told_the_time_at_once_and_without_being_asked_anything() -> None:
    async with linked() as ends:
        before = time.time()
        told = await ends.guest.ask_time()
        assert before <= told <= time.time()


@in_a_loop
async def test_events_go_to_the_handler_in_order() -> None:
    async with linked() as ends:
        ends.guest.say({"op": "booted"})
        ends.guest.say({"op": "kernel-ready"})
        await synchronise(ends)
        assert [event["op"] for event in ends.events] == ["booted", "kernel-ready"]


@in_a_loop
async def test_what_another_generation_says_is_dropped() -> None:
    async with linked() as ends:
        ends.control.generation = ends.guest.generation = 7
        ends.guest.say({"op": "kernel-ended"}, generation=6)
        await synchronise(ends)
        assert ends.events == []


@in_a_loop
async def test_questions_bear_the_generation_of_the_link() -> None:
    async with linked() as ends:
        ends.control.generation = 7
        with pytest.raises(GuestSilentError):
            await ends.control.ask("ping", timeout_s=0.05)
        await ends.guest.wait_asked("ping")
        assert len(ends.guest.asked) == 1
        ends.guest.generation = 7
        await synchronise(ends)


@in_a_loop
async def test_a_failed_link_releases_everyone_who_waits() -> None:
    async with linked() as ends:
        ends.guest.replies["ping"] = None
        waiting = [asyncio.create_task(ends.control.ask("ping", timeout_s=120)) for _ in range(3)]
        await asyncio.sleep(0)
        ends.control.fail(MachineEndedError("it was killed by signal 9"))
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, MachineEndedError)
            assert "signal 9" in str(outcome)


@in_a_loop
async def test_a_failed_link_can_be_asked_nothing_and_tells_the_first_reason() -> None:
    async with linked() as ends:
        ends.control.fail(MachineEndedError("it was killed by signal 9"))
        ends.control.fail(MachineEndedError("the test is over"))
        with pytest.raises(MachineEndedError, match="signal 9"):
            await ends.control.ask("ping", timeout_s=120)


GARBAGE = {
    "no frame": b"\0" * 64,
    "no JSON": wire.encode(wire.Kind.CONTROL, 0, b"{"),
    "a reply to nothing": wire.encode_control(0, {"op": "reply"}),
    "a wake without a number": wire.encode(wire.Kind.WAKE, 0, b"x"),
    "a wake that is no text": wire.encode(wire.Kind.WAKE, 0, b"\xff"),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@in_a_loop
async def test_garbage_from_the_guest_fails_the_link_for_everyone_who_waits(data: bytes) -> None:
    async with linked() as ends:
        ends.guest.replies["ping"] = None
        waiting = asyncio.create_task(ends.control.ask("ping", timeout_s=120))
        await asyncio.sleep(0)
        ends.guest.write_control(data)
        with pytest.raises(MachineError, match="could not be understood"):
            await waiting


@in_a_loop
async def test_the_order_to_wake_is_answered_with_the_guest_s_fields() -> None:
    async with linked() as ends:
        ends.control.generation = 9
        answer = await ends.control.ask_to_wake(["9", "entropy"], timeout_s=120)
        assert ends.guest.orders == [["entropy"]]
        assert answer[:2] == ["c0ffee", "random,numpy"]


@in_a_loop
async def test_a_guest_that_does_not_wake_is_silent() -> None:
    async with linked() as ends:
        ends.guest.replies["wake"] = None
        with pytest.raises(GuestSilentError, match="'wake'"):
            await ends.control.ask_to_wake(["9"], timeout_s=0.05)


@in_a_loop
async def test_at_rest_only_what_brings_it_about_and_ends_it_is_asked() -> None:
    async with linked() as ends:
        ends.control.hold()
        pinging = asyncio.create_task(ends.control.ask("ping", timeout_s=120))
        ends.control.tell("answer", {"call": 1})
        await ends.control.ask("freeze", {"sent": 0}, timeout_s=120, at_rest=True)
        assert [message["op"] for message in ends.guest.asked] == ["freeze"]
        ends.control.release()
        await pinging
        assert {message["op"] for message in ends.guest.asked[1:]} == {"ping", "answer"}


@in_a_loop
async def test_what_waits_for_the_end_of_a_rest_has_its_patience_too() -> None:
    async with linked() as ends:
        ends.control.hold()
        with pytest.raises(GuestSilentError, match="'ping'"):
            await ends.control.ask("ping", timeout_s=0.05)
        ends.control.release()
        await synchronise(ends)
        assert len(ends.guest.asked) == 1


@in_a_loop
async def test_a_machine_that_ends_at_rest_is_told_to_whoever_waits() -> None:
    async with linked() as ends:
        ends.control.hold()
        pinging = asyncio.create_task(ends.control.ask("ping", timeout_s=120))
        await asyncio.sleep(0)
        ends.control.fail(MachineEndedError("the machine has ended"))
        with pytest.raises(MachineEndedError):
            await pinging
        ends.control.tell("answer", {"call": 1})


@in_a_loop
async def test_what_needs_no_answer_is_told_in_order() -> None:
    async with linked() as ends:
        for number in range(3):
            ends.control.tell("answer", {"call": number})
        await synchronise(ends)
        assert [message.get("call") for message in ends.guest.asked] == [0, 1, 2, None]
