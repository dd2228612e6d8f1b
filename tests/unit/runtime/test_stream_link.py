"""The host's end of a machine's streams, with a guest that is made up at the other."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_guest import FakeGuest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.links import CONSOLE, Ends, linked

from branchpoint_guest import mux, wire
from branchpoint_guest.mux import Event
from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    StreamResetError,
)
from branchpoint_vmruntime.stream_link import UNACCEPTED_LIMIT, LinkedStream, StreamLink
from branchpoint_vmruntime.streams import Stream, StreamChannel

BIG = bytes(range(256)) * 8192


async def heard(guest: FakeGuest, verb: int) -> Event:
    """The next thing of that kind the host does."""
    while (event := await guest.streamed.get()).verb != verb:
        pass
    return event


async def accepted(ends: Ends) -> tuple[int, LinkedStream]:
    """A stream that the guest has opened: its number, and the host's end."""
    number = ends.guest.mux.open(("egress",))
    ends.guest.stream()
    return number, await ends.streams.accept()


async def opened(ends: Ends, *purpose: str) -> tuple[int, LinkedStream]:
    """A stream that the host has opened and the guest taken."""
    opening = asyncio.create_task(ends.streams.open(*purpose))
    number = (await heard(ends.guest, mux.OPEN)).stream
    ends.guest.mux.accept(number)
    ends.guest.stream()
    return number, await opening


def guest_says(ends: Ends, number: int, data: bytes = b"", *, finish: bool = False) -> None:
    """Bytes of the guest's on a stream."""
    ends.guest.mux.write(number, data)
    if finish:
        ends.guest.mux.finish(number)
    ends.guest.stream()


async def take_all(ends: Ends) -> bytes:
    """All that the host sends on one stream, to its end."""
    data = b""
    while (event := await ends.guest.streamed.get()).verb != mux.END:
        if event.verb == mux.DATA:
            data += event.data
            ends.guest.mux.taken(event.stream, len(event.data))
            ends.guest.stream()
    return data


async def read_all(stream: Stream) -> bytes:
    data = b""
    while piece := await stream.read():
        data += piece
    return data


def test_the_link_is_a_channel_of_streams() -> None:
    channel: StreamChannel = StreamLink(CONSOLE)
    assert channel


@in_a_loop
async def test_a_stream_of_the_guest_is_accepted_with_its_purpose() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        assert stream.purpose == ("egress",)
        assert (await heard(ends.guest, mux.OPENED)).stream == number


@in_a_loop
async def test_what_the_guest_sends_is_read_to_its_end() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        guest_says(ends, number, b"hello", finish=True)
        assert [await stream.read(3), await stream.read(), await stream.read()] == [
            b"hel",
            b"lo",
            b"",
        ]


@in_a_loop
async def test_megabytes_pass_both_ways_at_once_unchanged() -> None:
    async with linked() as ends:
        number, stream = await opened(ends, "echo")

        async def send() -> None:
            await stream.write(BIG)
            await stream.finish()

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read_all(stream))
            group.create_task(send())
            guest_says(ends, number, BIG, finish=True)
            # The host's credit lets the guest send what it has queued.
            data = b""
            while True:
                event = await ends.guest.streamed.get()
                if event.verb == mux.DATA:
                    data += event.data
                    ends.guest.mux.taken(number, len(event.data))
                elif event.verb == mux.END:
                    break
                ends.guest.stream()
            while not reading.done():
                ends.guest.stream()
                await asyncio.sleep(0)
        assert (data, reading.result()) == (BIG, BIG)


@in_a_loop
async def test_a_writer_waits_while_the_guest_has_no_room() -> None:
    async with linked() as ends:
        _, stream = await opened(ends, "echo")
        writing = asyncio.create_task(stream.write(BIG))
        while ends.guest.frames_received < 1 + mux.GUEST_WINDOW // mux.DATA_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert not writing.done()
        writing.cancel()
        await asyncio.wait([writing])


@in_a_loop
async def test_a_writer_that_waits_holds_up_no_other_stream() -> None:
    async with linked() as ends:
        _, stalled = await opened(ends, "echo")
        writing = asyncio.create_task(stalled.write(BIG))
        number, lively = await opened(ends, "echo")
        await lively.write(b"hello")
        while (event := await heard(ends.guest, mux.DATA)).stream != number:
            pass
        assert event.data == b"hello"
        assert not writing.done()
        writing.cancel()
        await asyncio.wait([writing])


@in_a_loop
async def test_what_is_not_read_here_stops_the_guest_at_its_window() -> None:
    async with linked() as ends:
        number, _ = await accepted(ends)
        guest_says(ends, number, BIG)
        other, stream = await accepted(ends)
        guest_says(ends, other, b"lively")
        assert await stream.read() == b"lively"
        assert ends.guest.mux.waiting_bytes(number) == len(BIG) - mux.HOST_WINDOW


@in_a_loop
async def test_what_the_guest_refuses_is_refused_in_its_words() -> None:
    async with linked() as ends:
        opening = asyncio.create_task(ends.streams.open("connect", "8000"))
        number = (await heard(ends.guest, mux.OPEN)).stream
        ends.guest.mux.refuse(number, "nothing listens on port 8000")
        ends.guest.stream()
        with pytest.raises(GuestRefusedError, match="nothing listens on port 8000"):
            await opening


@in_a_loop
async def test_a_guest_that_does_not_answer_is_silent_and_the_stream_is_given_up() -> None:
    async with linked() as ends:
        with pytest.raises(GuestSilentError, match="connect 8000"):
            await ends.streams.open("connect", "8000", timeout_s=0.02)
        assert (await heard(ends.guest, mux.RESET)).stream == 2


@in_a_loop
async def test_an_opening_that_is_called_off_is_taken_back() -> None:
    async with linked() as ends:
        opening = asyncio.create_task(ends.streams.open("connect", "8000"))
        await heard(ends.guest, mux.OPEN)
        opening.cancel()
        await heard(ends.guest, mux.RESET)
        await asyncio.wait([opening])
        assert opening.cancelled()


@in_a_loop
async def test_a_stream_that_is_closed_is_cut_off_for_the_guest() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        await stream.close()
        await stream.close()
        assert (await heard(ends.guest, mux.RESET)).stream == number
        for use in (stream.read(), stream.write(b"x"), stream.finish()):
            with pytest.raises(StreamResetError):
                await use


@in_a_loop
async def test_closing_one_that_both_ends_have_finished_loses_nothing() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        guest_says(ends, number, finish=True)
        assert await stream.read() == b""
        await stream.write(b"all of it")
        await stream.finish()
        await stream.close()
        assert await take_all(ends) == b"all of it"


@in_a_loop
async def test_what_came_before_the_guest_cut_a_stream_off_is_read_first() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        guest_says(ends, number, b"hello")
        ends.guest.mux.reset(number, "the program closed it")
        ends.guest.stream()
        assert await stream.read() == b"hello"
        with pytest.raises(StreamResetError, match="the program closed it"):
            await stream.read()
        with pytest.raises(StreamResetError):
            await stream.write(b"x")


@in_a_loop
async def test_a_reader_that_waits_when_a_stream_is_closed_is_told() -> None:
    async with linked() as ends:
        _, stream = await accepted(ends)
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
        await stream.close()
        with pytest.raises(StreamResetError):
            await reading


@in_a_loop
async def test_streams_that_nobody_accepts_are_refused_beyond_a_burst_of_them() -> None:
    async with linked() as ends:
        for _ in range(UNACCEPTED_LIMIT + 1):
            ends.guest.mux.open(("egress",))
        ends.guest.stream()
        refused = await heard(ends.guest, mux.REFUSED)
        assert "nobody on the host takes them" in refused.texts[0]
        assert refused.stream == 2 * UNACCEPTED_LIMIT + 1


@in_a_loop
async def test_one_that_the_guest_took_back_before_it_was_accepted_is_not_accepted() -> None:
    async with linked() as ends:
        gone, kept = (ends.guest.mux.open(("egress",)) for _ in range(2))
        ends.guest.mux.reset(gone, "the program closed it")
        ends.guest.stream()
        assert (await ends.streams.accept()).number == kept


@in_a_loop
async def test_at_rest_nothing_is_sent_and_what_was_written_meanwhile_follows() -> None:
    async with linked() as ends:
        number, stream = await opened(ends, "echo")
        sent = ends.streams.quiesce()
        await stream.write(b"later")
        await asyncio.sleep(0.02)
        assert (sent, ends.guest.frames_received) == (1, 1)
        ends.streams.resume()
        event = await heard(ends.guest, mux.DATA)
        assert (event.stream, event.data) == (number, b"later")
        assert ends.streams.quiesce() == 2


@in_a_loop
async def test_frames_can_be_waited_for_by_number() -> None:
    async with linked() as ends:
        waiting = asyncio.create_task(ends.streams.wait_received(2))
        number, _ = await accepted(ends)
        await asyncio.sleep(0)
        assert not waiting.done()
        guest_says(ends, number, b"second")
        await waiting


@in_a_loop
async def test_a_new_generation_cuts_all_off_and_counts_anew() -> None:
    async with linked() as ends:
        _, stream = await accepted(ends)
        accepting = asyncio.create_task(ends.streams.accept())
        opening = asyncio.create_task(ends.streams.open("connect", "80"))
        await heard(ends.guest, mux.OPEN)
        ends.streams.generation = 7
        for use in (stream.read(), stream.write(b"x"), opening):
            with pytest.raises(StreamResetError, match="woke anew"):
                await use
        await stream.close()
        assert (ends.streams.sent, ends.streams.received) == (0, 0)
        # A late frame of before is nobody's.
        ends.guest.mux.open(("old",))
        ends.guest.stream()
        ends.guest.generation, ends.guest.mux = 7, mux.Mux.of_guest()
        ends.guest.mux.open(("new",))
        ends.guest.stream()
        ends.streams.resume()
        assert (await accepting).purpose == ("new",)


@in_a_loop
async def test_once_the_machine_is_gone_everyone_is_told_why() -> None:
    async with linked() as ends:
        number, stream = await accepted(ends)
        guest_says(ends, number, b"last words")
        opening = asyncio.create_task(ends.streams.open("connect", "80"))
        accepting = asyncio.create_task(ends.streams.accept())
        waiting = asyncio.create_task(ends.streams.wait_received(100))
        while ends.streams.received < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        ends.streams.fail(MachineEndedError("the machine has ended: it was ended"))
        assert await stream.read() == b"last words"
        uses = (stream.read(), stream.write(b"x"), opening, accepting, waiting)
        for use in (*uses, ends.streams.open("connect", "80"), ends.streams.accept()):
            with pytest.raises(MachineEndedError, match="it was ended"):
                await use


GARBAGE = st.lists(
    st.binary(max_size=60)
    | st.builds(
        wire.encode,
        st.sampled_from(wire.Kind),
        st.just(0),
        st.binary(max_size=60),
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=50)
@given(GARBAGE)
def test_whatever_the_guest_sends_ends_its_streams_at_most(pieces: list[bytes]) -> None:
    link = StreamLink(CONSOLE)
    link.resume()
    for piece in pieces:
        link.data_received(piece)
    assert link.is_ended or link.received <= len(pieces)


@in_a_loop
async def test_a_guest_that_breaks_the_rules_loses_its_streams_and_nothing_else() -> None:
    async with linked() as ends:
        _, stream = await accepted(ends)
        ends.guest.write_streams(wire.encode(wire.STREAM, 0, b"\3\0\0\0\4data for what never was"))
        with pytest.raises(MachineEndedError, match="could not be understood"):
            await stream.read()
        with pytest.raises(MachineEndedError, match="could not be understood"):
            await ends.streams.accept()
        await ends.control.ask("ping", timeout_s=120)
