"""When an option of an exploration waits for room, and when it does not."""

import asyncio

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_kernel import exploring_room
from branchpoint_kernel.exploring_room import RoomToExplore


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring_room, "LOOK_FOR_ROOM_S", 0.0)


class Host:
    """Has room for so many machines more."""

    def __init__(self) -> None:
        self.room = 0

    def waiting(self) -> RoomToExplore:
        return RoomToExplore(lambda: self.room)


async def waits(room: RoomToExplore) -> "asyncio.Task[None]":
    waiting = asyncio.create_task(room.wait())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@in_a_loop
async def test_an_option_waits_for_the_room_that_a_fork_at_work_will_give_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring_room, "PATIENCE_S", 0.0)
    host = Host()
    room = host.waiting()
    with room.exploring("main"), room.taken("explore-1-1"):
        waiting = await waits(room)
        host.room = 1
        await waiting


@in_a_loop
async def test_a_fork_that_explores_itself_gives_no_prospect_of_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring_room, "PATIENCE_S", 0.0)
    room = Host().waiting()
    with room.exploring("main"), room.taken("explore-1-1"), room.exploring("explore-1-1"):
        await room.wait()


@in_a_loop
async def test_where_no_fork_works_room_is_hoped_for_a_while_and_once_for_all_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Host().waiting()
    with room.exploring("main"):
        waiting = await waits(room)
        monkeypatch.setattr(exploring_room, "PATIENCE_S", 0.0)
        await waiting
        await room.wait()
    monkeypatch.setattr(exploring_room, "PATIENCE_S", 30.0)
    with room.exploring("main"):
        waiting = await waits(room)
        waiting.cancel()
