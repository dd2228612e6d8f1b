"""The memory of what is paused is brought together meanwhile, and stands in nobody's way."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_workshop import FULL, FakeWorkshop, office
from tests.support.front_end import in_a_loop


async def until(holds: Callable[[], bool]) -> None:
    """Let everything else go on until that is so."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 (nobody tells that a preparation is done)
            await asyncio.sleep(0)


@in_a_loop
async def test_the_memory_of_what_is_paused_is_brought_together_meanwhile(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.fork(1, names=["other"])
        paused = [(await it.session.pause(name)).checkpoint.id for name in ("other", "main")]
        await until(lambda: it.workshop.brought_together == paused)


@in_a_loop
async def test_memory_that_cannot_be_brought_together_keeps_nothing_from_going_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workshop = FakeWorkshop(image_error=FULL)
    async with office(tmp_path, workshop) as it:
        first = (await it.session.pause()).checkpoint.id
        await until(lambda: workshop.asked_together == [first])
        await it.session.resume()
        workshop.image_error = None
        again = (await it.session.pause()).checkpoint.id
        await until(lambda: workshop.brought_together == [again])
    assert caplog.records == []


@in_a_loop
async def test_a_session_is_closed_once_what_is_brought_together_is_written(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop(image_hold=asyncio.Event())
    async with office(tmp_path, workshop) as it:
        paused = (await it.session.pause()).checkpoint.id
        closing = asyncio.create_task(it.session.close())
        await asyncio.wait([closing], timeout=0.1)
        assert not closing.done()
        assert workshop.image_hold is not None
        workshop.image_hold.set()
        await closing
        assert workshop.brought_together == [paused]


@in_a_loop
async def test_on_a_disk_that_is_short_nothing_is_brought_together_before_it_is_wanted(
    tmp_path: Path,
) -> None:
    workshop = FakeWorkshop(has_room=False)
    async with office(tmp_path, workshop) as it:
        await it.session.fork(1, names=["other"])
        await it.session.pause("other")
        await asyncio.sleep(0)
        workshop.has_room = True
        main = (await it.session.pause("main")).checkpoint.id
        await until(lambda: workshop.asked_together == [main])


@in_a_loop
async def test_what_was_given_up_meanwhile_is_not_brought_together(tmp_path: Path) -> None:
    workshop = FakeWorkshop(image_hold=asyncio.Event())
    async with office(tmp_path, workshop) as it:
        await it.session.fork(2, names=["one", "two"])
        one = (await it.session.pause("one")).checkpoint.id
        await until(lambda: workshop.asked_together == [one])
        await it.session.pause("two")
        await it.session.drop(["two"])
        main = (await it.session.pause("main")).checkpoint.id
        assert workshop.image_hold is not None
        workshop.image_hold.set()
        await until(lambda: workshop.brought_together == [one, main])
