"""Work of the host for a cell: an interrupt ends it in words, and nothing else does so."""

import asyncio

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_kernel.stoppable import Stoppable
from branchpoint_vmruntime.errors import TransferError, UsageError

STOPPED = TransferError("interrupted")


@in_a_loop
async def test_work_that_nobody_stops_gives_what_it_gives() -> None:
    stoppable = Stoppable()
    assert await stoppable.run(asyncio.sleep(0, "done"), STOPPED) == "done"
    assert not stoppable.stop()


@in_a_loop
async def test_work_that_is_stopped_has_cleaned_up_before_that_is_said() -> None:
    stoppable, cleaned = Stoppable(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    running = asyncio.create_task(stoppable.run(work(), STOPPED))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stoppable.stop()
    with pytest.raises(TransferError, match="interrupted"):
        await running
    assert cleaned.is_set()


@in_a_loop
async def test_work_that_is_stopped_again_cleans_up_undisturbed() -> None:
    stoppable, cleaned = Stoppable(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            cleaned.set()

    running = asyncio.create_task(stoppable.run(work(), STOPPED))
    await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
        assert stoppable.stop()
    with pytest.raises(TransferError, match="interrupted"):
        await running
    assert cleaned.is_set()


@in_a_loop
async def test_whoever_waits_for_it_is_cancelled_as_ever() -> None:
    running = asyncio.create_task(Stoppable().run(asyncio.sleep(3600), STOPPED))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


@in_a_loop
async def test_what_fails_fails_as_it_does() -> None:
    async def work() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        await Stoppable().run(work(), STOPPED)
