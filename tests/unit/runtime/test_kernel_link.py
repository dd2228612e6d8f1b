"""The kernel link: whole messages in order, counted, held back at rest, and never left waiting."""

import asyncio

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.links import Ends, linked

from branchpoint_guest import wire
from branchpoint_vmruntime import link
from branchpoint_vmruntime.errors import KernelDiedError, MachineEndedError, MachineError

HELLO = [b"shell", b"header", b"", b"{}", b"content", b"\0buffer\xff"]
# More than a socket pair and a transport hold between them.
LARGE = bytes(4 << 20)


@in_a_loop
async def test_messages_arrive_part_by_part_as_they_were_sent_both_ways() -> None:
    async with linked() as ends:
        ends.kernel.open_gate()
        await ends.kernel.send(HELLO)
        assert await ends.guest.inbox.get() == HELLO
        ends.guest.speak(HELLO[::-1])
        assert await ends.kernel.receive() == HELLO[::-1]


@in_a_loop
async def test_messages_come_in_the_order_they_were_said() -> None:
    async with linked() as ends:
        for number in range(50):
            ends.guest.speak([b"iopub", b"%d" % number])
        heard = [(await ends.kernel.receive())[1] for _ in range(50)]
        assert heard == [b"%d" % number for number in range(50)]


async def never(work: asyncio.Task[None]) -> bool:
    """Whether it is still waiting after everything else has had its turn."""
    await asyncio.sleep(0.03)
    return not work.done()


@in_a_loop
async def test_nothing_is_sent_before_the_kernel_is_ready() -> None:
    async with linked() as ends:
        sending = asyncio.create_task(ends.kernel.send(HELLO))
        assert await never(sending)
        assert ends.kernel.sent == 0
        ends.kernel.open_gate()
        await sending
        assert await ends.guest.inbox.get() == HELLO


@in_a_loop
async def test_at_rest_senders_wait_and_go_on_when_it_resumes() -> None:
    async with linked() as ends:
        ends.kernel.open_gate()
        await ends.kernel.send(HELLO)
        assert ends.kernel.quiesce() == 1
        sending = asyncio.create_task(ends.kernel.send(HELLO))
        assert await never(sending)
        assert ends.kernel.sent == 1
        ends.kernel.resume()
        await sending
        assert ends.kernel.sent == 2


async def fill(ends: Ends) -> None:
    """Let the guest read no more, and leave no room for another message."""
    ends.kernel.open_gate()
    ends.guest.listening.clear()
    await ends.kernel.send(HELLO)
    await ends.guest.inbox.get()
    await ends.kernel.send([b"shell", LARGE])


@in_a_loop
async def test_senders_wait_while_the_guest_reads_nothing() -> None:
    async with linked() as ends:
        await fill(ends)
        sending = asyncio.create_task(ends.kernel.send(HELLO))
        assert await never(sending)
        ends.guest.listening.set()
        await sending


@in_a_loop
async def test_a_sender_that_waits_for_room_sends_nothing_once_the_machine_is_at_rest() -> None:
    async with linked() as ends:
        await fill(ends)
        sending = asyncio.create_task(ends.kernel.send(HELLO))
        await asyncio.sleep(0)
        assert ends.kernel.quiesce() == 2
        ends.guest.listening.set()
        await ends.guest.inbox.get()
        assert await never(sending)
        assert (ends.kernel.sent, ends.guest.inbox.qsize()) == (2, 0)
        ends.kernel.resume()
        await sending
        assert await ends.guest.inbox.get() == HELLO


@in_a_loop
async def test_a_new_generation_counts_from_zero() -> None:
    async with linked() as ends:
        ends.kernel.open_gate()
        await ends.kernel.send(HELLO)
        ends.guest.speak(HELLO)
        await ends.kernel.receive()
        ends.kernel.generation = 5
        assert (ends.kernel.sent, ends.kernel.received, ends.kernel.generation) == (0, 0, 5)


@in_a_loop
async def test_resuming_counts_on() -> None:
    async with linked() as ends:
        ends.kernel.open_gate()
        await ends.kernel.send(HELLO)
        ends.guest.speak(HELLO)
        await ends.kernel.receive()
        ends.kernel.quiesce()
        ends.kernel.resume()
        assert (ends.kernel.sent, ends.kernel.received) == (1, 1)


@in_a_loop
async def test_messages_of_another_generation_are_dropped_and_not_counted() -> None:
    async with linked() as ends:
        ends.kernel.generation = ends.guest.generation = 5
        ends.guest.speak([b"iopub", b"stale"], generation=4)
        ends.guest.speak([b"iopub", b"fresh"])
        assert await ends.kernel.receive() == [b"iopub", b"fresh"]
        assert ends.kernel.received == 1


@in_a_loop
async def test_what_is_on_its_way_is_waited_for() -> None:
    async with linked() as ends:
        waiting = asyncio.create_task(ends.kernel.wait_received(2))
        ends.guest.speak([b"iopub", b"1"])
        assert await never(waiting)
        ends.guest.speak([b"iopub", b"2"])
        await waiting
        assert ends.kernel.received == 2


@in_a_loop
async def test_two_who_wait_do_not_take_each_other_s_news() -> None:
    async with linked() as ends:
        both = asyncio.gather(ends.kernel.wait_received(1), ends.kernel.receive())
        await asyncio.sleep(0)
        ends.guest.speak(HELLO)
        assert (await both)[1] == HELLO


@in_a_loop
async def test_a_full_queue_stops_reading_until_something_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "QUEUE_LIMIT_BYTES", 100)
    async with linked() as ends:
        ends.guest.speak([b"iopub", bytes(200)])
        await ends.kernel.wait_received(1)
        ends.guest.speak([b"iopub", b"next"])
        await asyncio.sleep(0.03)
        assert ends.kernel.received == 1
        await ends.kernel.receive()
        assert await ends.kernel.receive() == [b"iopub", b"next"]


@in_a_loop
async def test_a_full_queue_does_not_keep_a_machine_from_coming_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "QUEUE_LIMIT_BYTES", 100)
    async with linked() as ends:
        for _ in range(5):
            ends.guest.speak([b"iopub", bytes(200)])
        await ends.kernel.wait_received(5)
        assert ends.kernel.received == 5


@in_a_loop
async def test_a_long_run_of_messages_taken_as_they_come_never_counts_as_a_full_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "QUEUE_LIMIT_BYTES", 100)
    async with linked() as ends, asyncio.timeout(120):
        for _ in range(50):
            ends.guest.speak([b"iopub", b"x"])
            assert await ends.kernel.receive() == [b"iopub", b"x"]


@in_a_loop
async def test_what_had_arrived_is_handed_out_before_the_reason_of_the_end() -> None:
    async with linked() as ends:
        ends.guest.speak(HELLO)
        await ends.kernel.wait_received(1)
        ends.kernel.fail(KernelDiedError("the kernel was killed by signal 9"))
        assert await ends.kernel.receive() == HELLO
        with pytest.raises(KernelDiedError, match="signal 9"):
            await ends.kernel.receive()


@in_a_loop
async def test_the_first_reason_of_an_end_is_the_one_that_is_told() -> None:
    async with linked() as ends:
        ends.kernel.fail(KernelDiedError("the kernel was killed by signal 9"))
        ends.kernel.fail(MachineEndedError("the machine has ended"))
        with pytest.raises(KernelDiedError):
            await ends.kernel.receive()


@in_a_loop
async def test_an_end_releases_everyone_who_waits() -> None:
    async with linked() as ends:
        waiting = [
            asyncio.create_task(work)
            for work in (
                ends.kernel.receive(),
                ends.kernel.send(HELLO),
                ends.kernel.wait_received(3),
            )
        ]
        await asyncio.sleep(0)
        ends.kernel.fail(MachineEndedError("it was killed by signal 9"))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [MachineEndedError] * 3


@in_a_loop
async def test_sending_after_the_end_is_an_error_even_if_it_was_brought_to_rest_since() -> None:
    async with linked() as ends:
        ends.kernel.fail(MachineEndedError("it was killed by signal 9"))
        ends.kernel.quiesce()
        with pytest.raises(MachineEndedError, match="signal 9"):
            await ends.kernel.send(HELLO)


GARBAGE = {
    "no frame": b"\0" * 64,
    "no parts": wire.encode(wire.Kind.MESSAGE, 0, b"\xff" * 8),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@in_a_loop
async def test_garbage_from_the_guest_is_an_error_for_the_reader_and_not_silence(
    data: bytes,
) -> None:
    async with linked() as ends:
        ends.guest.write_kernel(data)
        with pytest.raises(MachineError, match="could not be understood"):
            await ends.kernel.receive()


@in_a_loop
async def test_a_control_request_does_not_wait_for_a_large_cell_that_is_under_way() -> None:
    async with linked() as ends:
        await fill(ends)
        await ends.kernel.send([b"control", b"interrupt"])
        ends.guest.listening.set()
        order = [(await ends.guest.inbox.get())[0] for _ in range(2)]
        assert order == [b"control", b"shell"]


@in_a_loop
async def test_what_was_accepted_is_written_even_after_it_was_brought_to_rest() -> None:
    async with linked() as ends:
        await fill(ends)
        assert ends.kernel.quiesce() == 2
        ends.guest.listening.set()
        assert (await ends.guest.inbox.get()) == [b"shell", LARGE]


@in_a_loop
async def test_what_is_urgent_is_handed_out_before_output_that_arrived_earlier() -> None:
    async with linked() as ends:
        for channel in (b"iopub", b"control", b"iopub"):
            ends.guest.speak([channel])
        await ends.kernel.wait_received(3)
        order = [(await ends.kernel.receive())[0] for _ in range(3)]
        assert order == [b"control", b"iopub", b"iopub"]
