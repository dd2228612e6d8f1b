"""What code that is root in a machine may say on its ports, and must not harm the host by."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.links import linked

from branchpoint_guest import wire
from branchpoint_vmruntime import link, link_bounds
from branchpoint_vmruntime.calls import CallQueue
from branchpoint_vmruntime.errors import GuestRefusedError, MachineError

FLAT = {"do": "once"}


def queue() -> tuple[CallQueue, list[tuple[int, str]]]:
    """A queue, and whose answers it has given so far."""
    answers: list[tuple[int, str]] = []

    def send(number: int, answer: Mapping[str, Any]) -> None:
        answers.append((number, answer["status"]))

    return CallQueue(send), answers


def test_a_call_cannot_come_twice_under_one_number() -> None:
    calls, _ = queue()
    calls.take({"id": 1, "request": FLAT})
    with pytest.raises(ValueError, match="number 1"):
        calls.take({"id": 1, "request": FLAT})


@pytest.mark.parametrize("number", ["1", 1.5, None, True])
def test_a_call_needs_a_number(number: object) -> None:
    calls, _ = queue()
    with pytest.raises(ValueError, match="under the number"):
        calls.take({"id": number, "request": FLAT})


@in_a_loop
async def test_calls_that_are_begun_and_given_up_do_not_gather() -> None:
    calls, _ = queue()
    for number in range(10_000):
        calls.take({"id": number, "request": FLAT})
        calls.note_gone(number)
    calls.take({"id": 10_001, "request": FLAT})
    assert len(calls._queue) == 1  # pyright: ignore[reportPrivateUsage]
    assert (await calls.next()).id == 10_001


def test_a_call_of_nested_parts_is_refused() -> None:
    calls, answers = queue()
    calls.take({"id": 1, "request": {"do": [1]}})
    assert answers == [(1, "error")]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[]",
        b"1" * 10_000,
        b'{"op": "reply"}',
        b'{"op": "reply", "id": []}',
        b'{"op": "\xff"}',
    ],
)
@in_a_loop
async def test_a_word_that_makes_no_sense_ends_the_link_in_words(body: bytes) -> None:
    async with linked() as ends:
        ends.control.data_received(wire.encode(wire.Kind.CONTROL, 0, body))
        with pytest.raises(MachineError):
            await ends.control.ask("ping", timeout_s=120)


@in_a_loop
async def test_an_answer_without_what_was_asked_for_is_an_error_in_words() -> None:
    async with linked() as ends:
        ends.guest.replies["freeze"] = {}
        reply = await ends.control.ask("freeze", timeout_s=120)
        with pytest.raises(GuestRefusedError, match="no 'sent'"):
            assert reply["sent"]


def test_a_long_word_of_many_parts_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_bounds, "LONG_BYTES", 100)
    monkeypatch.setattr(link_bounds, "MOST_MARKS", 50)
    check = link_bounds.require_few_marks
    check(json.dumps({"payload": "A" * 1000}).encode())
    check(b"[" * 99)
    with pytest.raises(wire.WireError):
        check(b"[]," * 50)


def chunk(body: bytes, lane: int) -> bytes:
    return wire.encode(wire.Kind.MESSAGE, 0, body, lane)


@pytest.mark.parametrize(
    "frames",
    [
        [chunk(b"\x01\0\0\0" + bytes(400), wire.MORE)] * 4,
        [chunk(struct.pack("<I", 1 << 20), wire.MORE)],
        [chunk(struct.pack("<I", 1 << 20) + bytes(400), 0)],
        [chunk(b"", wire.MORE)],
        [wire.encode(wire.Kind.STREAM, 0, b"")],
        [wire.encode(wire.Kind.CLOCK, 0, b"")],
    ],
    ids=["endless", "parts", "parts at once", "nothing", "another kind", "a clock"],
)
@in_a_loop
async def test_no_message_of_a_kernel_s_grows_without_end(
    frames: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_bounds, "MOST_MESSAGE_BYTES", 1000)
    async with linked() as ends:
        ends.kernel.generation = 0
        for frame in frames:
            ends.kernel.data_received(frame)
        with pytest.raises(MachineError):
            await ends.kernel.receive()


@in_a_loop
async def test_messages_of_nothing_hold_the_guest_back_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "QUEUE_LIMIT_BYTES", 10_000)
    async with linked() as ends:
        ends.kernel.generation = 0
        for _ in range(1000):
            ends.kernel.data_received(chunk(wire.pack_parts([]), 0))
        transport = ends.kernel._transport  # pyright: ignore[reportPrivateUsage]
        assert transport is not None
        assert not transport.is_reading()
