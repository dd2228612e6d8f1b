"""Calls out of a machine: each is handed on once, and answered if its caller still waits."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import MadeUp, made_up

from branchpoint_vmruntime import calls as calls_module
from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.errors import KernelDiedError, MachineEndedError

REQUEST = {"do": "magic", "name": "checkpoint", "line": "a", "body": "", "by": "function"}


def a_call(number: int, request: object = REQUEST) -> dict[str, Any]:
    """The guest's word of a call."""
    return {"op": "call", "id": number, "request": request}


async def given(it: MadeUp) -> list[tuple[int, str]]:
    """The answers the guest got so far: whose, and their status."""
    await it.machine.ping(timeout_s=120)
    return [(m["call"], m["answer"]["status"]) for m in it.guest.asked if m["op"] == "answer"]


@in_a_loop
async def test_calls_are_handed_on_in_order_with_what_they_ask(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        it.guest.say(a_call(5, {"do": "explore", "count": 2}))
        first, second = [await it.machine.calls.next() for _ in range(2)]
        assert (first.id, first.request) == (4, REQUEST)
        assert (second.id, second.request["count"]) == (5, 2)


@in_a_loop
async def test_an_answer_finds_its_caller(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        it.guest.say(a_call(5))
        first, second = [await it.machine.calls.next() for _ in range(2)]
        await it.machine.calls.answer(second, {"status": "error"})
        await it.machine.calls.answer(first, {"status": "ok"})
        assert await given(it) == [(5, "error"), (4, "ok")]


@in_a_loop
async def test_an_answer_that_cannot_be_sent_leaves_the_caller_waiting_for_another() -> None:
    sent: list[str] = []

    def send(_: int, answer: Mapping[str, Any]) -> None:
        if answer["status"] == "ok":
            raise ValueError("too large")
        sent.append(answer["status"])

    queue = CallQueue(send)
    queue.take(a_call(4))
    call = await queue.next()
    with pytest.raises(ValueError, match="too large"):
        await queue.answer(call, {"status": "ok"})
    await queue.answer(call, {"status": "error"})
    assert sent == ["error"]


@in_a_loop
async def test_a_caller_gets_one_answer(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        call = await it.machine.calls.next()
        for status in ("ok", "error"):
            await it.machine.calls.answer(call, {"status": status})
        assert await given(it) == [(4, "ok")]


@in_a_loop
async def test_a_caller_that_hung_up_is_gone_and_gets_no_answer(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        call = await it.machine.calls.next()
        it.guest.say({"op": "call-gone", "id": 4})
        await call.gone.wait()
        await it.machine.calls.answer(call, {"status": "ok"})
        assert await given(it) == []


@in_a_loop
async def test_a_call_that_hung_up_before_it_was_handed_on_never_is(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        it.guest.say({"op": "call-gone", "id": 4})
        it.guest.say(a_call(5))
        assert (await it.machine.calls.next()).id == 5


@in_a_loop
async def test_no_more_calls_come_once_the_machine_has_ended(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        call = await it.machine.calls.next()
        waiting = asyncio.create_task(it.machine.calls.next())
        await it.machine.end()
        with pytest.raises(MachineEndedError):
            await waiting
        assert call.gone.is_set()
        await it.machine.calls.answer(call, {"status": "ok"})


@in_a_loop
async def test_a_machine_whose_kernel_died_still_calls(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say({"op": "relay-ended"})
        it.guest.say(a_call(4))
        assert (await it.machine.calls.next()).id == 4
        assert isinstance(it.machine.failure, KernelDiedError)


@in_a_loop
async def test_an_answer_given_at_rest_is_sent_after_it(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4))
        call = await it.machine.calls.next()
        await it.machine.freeze(timeout_s=120)
        await it.machine.calls.answer(call, {"status": "ok"})
        await it.machine.thaw(timeout_s=120)
        assert await given(it) == [(4, "ok")]
        told = [message["op"] for message in it.guest.asked]
        assert told == ["freeze", "thaw", "answer", "ping"]


@pytest.mark.parametrize("request_", [None, "checkpoint", ["do"], 7])
@in_a_loop
async def test_what_is_no_object_is_refused_at_once(tmp_path: Path, request_: object) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say(a_call(4, request_))
        it.guest.say(a_call(5))
        assert (await it.machine.calls.next()).id == 5
        assert await given(it) == [(4, "error")]


@in_a_loop
async def test_more_calls_than_can_wait_are_refused_and_the_others_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls_module, "MAX_OPEN_CALLS", 2)
    answers: list[tuple[int, Mapping[str, Any]]] = []
    queue = CallQueue(lambda number, answer: answers.append((number, answer)))
    for number in (1, 2, 3):
        queue.take(a_call(number))
    [(number, refusal)] = answers
    assert (number, refusal["status"], refusal["ename"]) == (3, "error", "UsageError")
    first = await queue.next()
    await queue.answer(first, {"status": "ok"})
    queue.take(a_call(4))
    assert [(await queue.next()).id for _ in range(2)] == [2, 4]
