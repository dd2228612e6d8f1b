"""Which machine a forwarded port leads to: rolled back, switched, parked, paused or dropped."""

import asyncio

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.outside.forwarded import (
    PORT,
    Branches,
    Client,
    ask,
    echo,
    forwards_of,
    machine,
    says,
)

from branchpoint_vmruntime.errors import UsageError


@in_a_loop
async def test_after_a_rollback_the_restored_machine_is_reached() -> None:
    branches = Branches(main=machine(echo))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        async with Client.of(forward) as client:
            await client.send(b"before")
            assert await client.reader.readexactly(6) == b"before"
            left, branches.channels["main"] = branches.channels["main"], machine(says(b"restored"))
            await left.end()
            assert await client.was_reset()
        assert await ask(forward) == b"restored"


@in_a_loop
async def test_it_follows_the_current_branch() -> None:
    branches = Branches(main=machine(says(b"main")), ridge=machine(says(b"ridge")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        branches.current = "ridge"
        assert await ask(forward) == b"ridge"


@in_a_loop
async def test_pinned_to_a_branch_it_stays_there() -> None:
    branches = Branches(main=machine(says(b"main")), ridge=machine(says(b"ridge")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT, branch="main")
        branches.current = "ridge"
        assert await ask(forward) == b"main"


@in_a_loop
async def test_an_open_connection_stays_with_the_branch_it_reached() -> None:
    branches = Branches(main=machine(echo), ridge=machine(says(b"ridge")))
    async with forwards_of(branches) as forwards, Client.of(await forwards.add(PORT)) as client:
        await client.send(b"hold")
        assert await client.reader.readexactly(4) == b"hold"
        branches.current = "ridge"
        await client.send(b"more")
        assert await client.reader.readexactly(4) == b"more"


@in_a_loop
async def test_while_the_branch_is_parked_connections_are_reset_and_work_again_after() -> None:
    branches = Branches(main=machine(says(b"main")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        awake = branches.channels.pop("main")
        async with Client.of(forward) as client:
            assert await client.was_reset()
        branches.channels["main"] = awake
        assert await ask(forward) == b"main"


@in_a_loop
async def test_a_dropped_branch_takes_those_pinned_to_it_along() -> None:
    branches = Branches(main=machine(says(b"main")), ridge=machine(echo))
    async with forwards_of(branches) as forwards:
        pinned = await forwards.add(PORT, branch="ridge")
        following = await forwards.add(PORT)
        async with Client.of(pinned) as client:
            await client.send(b"hold")
            await client.reader.readexactly(4)
            await forwards.dropped("ridge")
            assert await client.was_reset()
        with pytest.raises(ConnectionRefusedError):
            await ask(pinned)
        assert forwards.list() == [following]


@in_a_loop
async def test_a_branch_without_a_machine_gets_none() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        with pytest.raises(UsageError, match="has no machine"):
            await forwards.add(PORT, branch="ridge")
        assert forwards.list() == []


@in_a_loop
async def test_connections_to_a_paused_branch_wait_for_its_machine_and_are_answered() -> None:
    branches = Branches(main=machine(echo), ridge=machine(says(b"of ridge")))
    async with forwards_of(branches) as forwards:
        follows = await forwards.add(PORT)
        pinned = await forwards.add(PORT, branch="ridge")
        for name in ("main", "ridge"):
            branches.pause(name)
        asked = (ask(follows, b"one"), ask(follows, b"two"), ask(pinned))
        assert await asyncio.gather(*asked) == [b"one", b"two", b"of ridge"]
        assert branches.paused == {}


@in_a_loop
async def test_a_port_of_a_paused_branch_is_forwarded_without_waking_it() -> None:
    branches = Branches(main=machine(echo))
    branches.pause("main")
    async with forwards_of(branches) as forwards:
        made = await forwards.add(PORT)
        assert made.answered
        assert "main" in branches.paused
        assert await ask(made, b"hello") == b"hello"


@in_a_loop
async def test_a_branch_that_cannot_be_resumed_resets_the_connection_and_the_forward_stays() -> (
    None
):
    branches = Branches(main=machine(echo))
    async with forwards_of(branches) as forwards:
        made = await forwards.add(PORT)
        branches.pause("main")
        kept, branches.paused = branches.paused, {}
        async with Client.of(made) as client:
            assert await client.was_reset()
        branches.paused = kept
        assert [f.host_port for f in forwards.list()] == [made.host_port]
        assert await ask(made, b"again") == b"again"
