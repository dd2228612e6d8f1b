"""Streams in a machine's life: drained at rest, cut off by a waking, ended with it or before."""

from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import made_up, wait_for_answers

from branchpoint_guest import mux
from branchpoint_vmruntime.errors import FreezeError, MachineEndedError, StreamResetError


@in_a_loop
async def test_freezing_tells_the_guest_how_many_frames_it_was_sent_and_waits_for_all_of_its_own(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        number = it.guest.mux.open(("egress",))
        it.guest.mux.write(number, b"hello")
        it.guest.stream()
        stream = await it.machine.streams.accept()
        await stream.write(b"and back")
        await it.machine.freeze(timeout_s=120)
        assert it.guest.asked[0]["streamed"] == it.guest.frames_received == 2
        assert it.machine.streams.received == it.guest.frames_sent == 2
        await it.machine.thaw(timeout_s=120)
        assert await stream.read() == b"hello"


@in_a_loop
async def test_frames_that_do_not_arrive_are_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made_up(tmp_path) as it:
        wait_for_answers(it, monkeypatch)
        it.guest.replies["freeze"] = {"sent": 0, "streamed": 1, "phases_ms": {}}
        with pytest.raises(FreezeError, match="streams of the machine"):
            await it.machine.freeze(timeout_s=0.05)


@in_a_loop
async def test_a_stream_goes_on_after_a_checkpoint_with_what_was_written_at_rest(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        it.guest.mux.open(("egress",))
        it.guest.stream()
        stream = await it.machine.streams.accept()
        await it.machine.freeze(timeout_s=120)
        await stream.write(b"meanwhile")
        await it.machine.thaw(timeout_s=120)
        while (event := await it.guest.streamed.get()).verb != mux.DATA:
            pass
        assert event.data == b"meanwhile"


@in_a_loop
async def test_waking_cuts_off_the_streams_of_before(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.mux.open(("egress",))
        it.guest.stream()
        before = await it.machine.streams.accept()
        await it.machine.wake(reseed=False, timeout_s=120)
        with pytest.raises(StreamResetError, match="woke anew"):
            await before.read()
        it.guest.mux.open(("anew",))
        it.guest.stream()
        assert (await it.machine.streams.accept()).purpose == ("anew",)


@in_a_loop
async def test_a_guest_whose_streams_have_ended_still_comes_to_rest(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say({"op": "streams-ended"})
        with pytest.raises(MachineEndedError, match="what carries streams"):
            await it.machine.streams.accept()
        it.guest.replies["freeze"] = {"sent": 0, "streamed": None, "phases_ms": {}}
        await it.machine.freeze(timeout_s=120)
        assert it.guest.asked[0]["streamed"] == -1
        assert it.machine.failure is None


@in_a_loop
async def test_a_machine_whose_streams_made_no_sense_still_comes_to_rest(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.write_streams(b"garbage that is no frame")
        with pytest.raises(MachineEndedError, match="could not be understood"):
            await it.machine.streams.accept()
        it.guest.replies["freeze"] = {"sent": 0, "streamed": 12, "phases_ms": {}}
        await it.machine.freeze(timeout_s=120)
        assert it.guest.asked[0]["streamed"] == -1


@in_a_loop
async def test_the_end_of_the_machine_is_the_end_of_its_streams(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.mux.open(("egress",))
        it.guest.stream()
        stream = await it.machine.streams.accept()
        await it.machine.end("a rollback replaced it")
        for use in (stream.read(), it.machine.streams.accept(), it.machine.streams.open("echo")):
            with pytest.raises(MachineEndedError, match="a rollback replaced it"):
                await use
