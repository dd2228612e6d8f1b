"""A port of a machine on the host: bytes both ways, and which ports there are."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack

import pytest
from tests.support.fake_streams import FakeEnd
from tests.support.front_end import in_a_loop
from tests.support.ports import free_port
from tests.unit.outside.forwarded import (
    PORT,
    Branches,
    Client,
    ask,
    count,
    echo,
    forwards_of,
    machine,
    says,
    settled,
    taken_port,
)

from branchpoint_vmruntime.errors import StreamResetError, UnknownNameError, UsageError
from branchpoint_vmruntime.outside.forwarding import ADDRESS, MAX_FORWARDS

MUCH = 16 << 20
REQUEST = b"GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def web_server(end: FakeEnd) -> None:
    """Answers requests on a connection that it keeps open."""
    while request := await end.read():
        assert request == REQUEST
        await end.write(REPLY)


@in_a_loop
async def test_requests_are_answered_on_one_connection() -> None:
    async with (
        forwards_of(Branches(main=machine(web_server))) as forwards,
        Client.of(await forwards.add(PORT)) as client,
    ):
        for _ in range(3):
            await client.send(REQUEST)
            assert await client.reader.readexactly(len(REPLY)) == REPLY


@in_a_loop
async def test_whoever_looks_on_hears_of_a_forward_that_is_made_and_that_ends() -> None:
    heard: list[int] = []
    async with forwards_of(Branches(main=machine(echo), other=machine(echo))) as forwards:
        forwards.on_change = lambda: heard.append(len(forwards.list()))
        await forwards.add(PORT)
        await forwards.add(PORT, branch="other")
        assert heard == [1, 2]
        await forwards.remove(PORT)
        await forwards.dropped("other")
        assert heard == [1, 2, 1, 0]


@in_a_loop
async def test_much_arrives_whole_both_ways() -> None:
    sent = os.urandom(3 << 20)
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        assert await ask(await forwards.add(PORT), sent) == sent


@in_a_loop
async def test_a_client_that_is_done_still_gets_its_answer() -> None:
    async with forwards_of(Branches(main=machine(count))) as forwards:
        assert await ask(await forwards.add(PORT), b"four") == b"4"


@in_a_loop
async def test_a_program_that_is_done_still_gets_what_comes() -> None:
    heard = asyncio.Event()

    async def goodbye(end: FakeEnd) -> None:
        await end.finish()
        assert await end.read_all() == b"one more"
        heard.set()

    async with (
        forwards_of(Branches(main=machine(goodbye))) as forwards,
        Client.of(await forwards.add(PORT)) as client,
    ):
        assert await client.reader.read() == b""
        await client.send(b"one more")
        client.writer.write_eof()
        await heard.wait()


@in_a_loop
async def test_many_connections_are_kept_apart() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        forward = await forwards.add(PORT)
        words = [str(number).encode() * 999 for number in range(100)]
        assert await asyncio.gather(*(ask(forward, word) for word in words)) == words


@in_a_loop
async def test_a_reset_inside_is_a_reset_for_the_client() -> None:
    async def crash(end: FakeEnd) -> None:
        await end.write(b"half of a repl")
        await end.read()
        await end.close()

    async with (
        forwards_of(Branches(main=machine(crash))) as forwards,
        Client.of(await forwards.add(PORT)) as client,
    ):
        assert await client.reader.readexactly(14)
        await client.send(b"?")
        assert await client.was_reset()


@in_a_loop
async def test_a_client_that_resets_is_a_reset_inside() -> None:
    seen: asyncio.Future[StreamResetError] = asyncio.get_running_loop().create_future()

    async def wait(end: FakeEnd) -> None:
        try:
            while True:
                await end.read()
        except StreamResetError as error:
            if not seen.done():
                seen.set_result(error)

    branches = Branches(main=machine(says(b"")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        branches.channels["main"] = machine(wait)
        async with Client.of(forward) as client:
            await client.send(b"hello")
            linger = b"\1\0\0\0\0\0\0\0"
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        assert await seen


@in_a_loop
async def test_a_client_that_does_not_read_makes_the_program_wait() -> None:
    written = 0

    async def pour(end: FakeEnd) -> None:
        nonlocal written
        for _ in range(MUCH >> 16):
            await end.write(bytes(1 << 16))
            written += 1 << 16
        await end.finish()

    branches = Branches(main=machine(says(b"")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        branches.channels["main"] = machine(pour)
        async with Client.of(forward) as client:
            assert await settled(lambda: written) < MUCH
            client.writer.write_eof()
            assert len(await client.reader.read()) == MUCH


@in_a_loop
async def test_a_program_that_does_not_read_makes_the_client_wait() -> None:
    sent = 0
    may_read = asyncio.Event()

    async def late(end: FakeEnd) -> None:
        await may_read.wait()
        await count(end)

    async def pour(client: Client) -> None:
        nonlocal sent
        for _ in range(MUCH >> 16):
            await client.send(bytes(1 << 16))
            sent += 1 << 16
        client.writer.write_eof()

    branches = Branches(main=machine(says(b"")))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        branches.channels["main"] = machine(late)
        async with Client.of(forward) as client, asyncio.TaskGroup() as group:
            group.create_task(pour(client))
            assert await settled(lambda: sent) < MUCH
            may_read.set()
            assert await client.reader.read() == str(MUCH).encode()


@in_a_loop
async def test_nothing_listening_inside_is_told_and_forgotten_once_something_does() -> None:
    branches = Branches(main=machine(echo, port=9000))
    async with forwards_of(branches) as forwards:
        forward = await forwards.add(PORT)
        assert not forward.answered
        async with Client.of(forward) as client:
            assert await client.was_reset()
        branches.channels["main"] = machine(says(b"up"))
        assert await ask(forward) == b"up"
        assert [f.answered for f in forwards.list()] == [True]


@in_a_loop
async def test_to_find_out_what_listens_is_no_error_for_a_program() -> None:
    visits: list[bytes] = []

    async def note(end: FakeEnd) -> None:
        visits.append(await end.read_all())
        await end.finish()

    async with forwards_of(Branches(main=machine(note))) as forwards:
        assert (await forwards.add(PORT)).answered
    assert visits == [b""]


@in_a_loop
async def test_it_has_the_port_on_the_host_that_was_chosen() -> None:
    free = free_port()
    async with forwards_of(Branches(main=machine(says(b"in")))) as forwards:
        forward = await forwards.add(PORT, to=free)
        assert forward.host_port == free
        assert await ask(forward) == b"in"


@in_a_loop
async def test_a_chosen_host_port_that_is_in_use_is_refused() -> None:
    with taken_port() as other:
        async with forwards_of(Branches(main=machine(echo))) as forwards:
            with pytest.raises(UsageError, match="is in use") as refused:
                await forwards.add(PORT, to=other.getsockname()[1])
            assert "--to" in refused.value.hint
            assert forwards.list() == []


@pytest.mark.parametrize("port", [0, -1, 65536])
@in_a_loop
async def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        with pytest.raises(UsageError, match="is not a port"):
            await forwards.add(port)
        with pytest.raises(UsageError, match="is not a port"):
            await forwards.add(PORT, to=port)


@in_a_loop
async def test_the_same_port_of_the_same_branch_is_forwarded_once() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        forward = await forwards.add(PORT)
        with pytest.raises(UsageError, match=f"already: {ADDRESS}:{forward.host_port}"):
            await forwards.add(PORT)


@in_a_loop
async def test_there_is_a_limit_to_what_is_forwarded() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        for port in range(1, MAX_FORWARDS + 1):
            await forwards.add(port)
        with pytest.raises(UsageError, match=f"{MAX_FORWARDS} ports are forwarded already"):
            await forwards.add(PORT)
        await forwards.remove(1)
        assert await forwards.add(PORT)


@in_a_loop
async def test_one_that_was_removed_is_gone_with_its_connections() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        forward = await forwards.add(PORT)
        async with Client.of(forward) as client:
            await client.send(b"hold")
            await client.reader.readexactly(4)
            assert (await forwards.remove(PORT)).host_port == forward.host_port
            assert await client.was_reset()
        with pytest.raises(ConnectionRefusedError):
            await ask(forward)


@in_a_loop
async def test_removing_one_that_is_not_there_names_those_that_are() -> None:
    branches = Branches(main=machine(echo))
    async with forwards_of(branches) as forwards:
        await forwards.add(PORT, branch="main")
        with pytest.raises(UnknownNameError, match=f"there is: {PORT} --branch main"):
            await forwards.remove(PORT)


@in_a_loop
async def test_one_connection_too_many_is_reset_and_the_others_go_on() -> None:
    async with forwards_of(Branches(main=machine(echo)), at_once=1) as forwards:
        forward = await forwards.add(PORT)
        async with Client.of(forward) as first:
            await first.send(b"hold")
            await first.reader.readexactly(4)
            async with Client.of(forward) as second:
                assert await second.was_reset()
            assert [f.connections for f in forwards.list()] == [1]
            await first.send(b"more")
            assert await first.reader.readexactly(4) == b"more"


@in_a_loop
async def test_leaving_ends_connections_and_ports() -> None:
    async with AsyncExitStack() as stack:
        async with forwards_of(Branches(main=machine(echo))) as forwards:
            forward = await forwards.add(PORT)
            client = await stack.enter_async_context(Client.of(forward))
            await client.send(b"hold")
            await client.reader.readexactly(4)
        assert await client.was_reset()
    with pytest.raises(ConnectionRefusedError):
        await ask(forward)


@in_a_loop
async def test_it_listens_on_no_other_address_of_the_host() -> None:
    async with forwards_of(Branches(main=machine(echo))) as forwards:
        forward = await forwards.add(PORT)
        for address in ("127.0.0.2", "::1"):
            # A host may have no IPv6, or none at loopback.
            refused = r"Connect call failed|Cannot assign|Address family not supported"
            with pytest.raises(OSError, match=refused):
                await asyncio.open_connection(address, forward.host_port)
