"""Servers that do not behave: each has a clear end for the program, and one in the ledger."""

import asyncio
import tracemalloc

import pytest
from tests.support.fake_streams import FakeEnd
from tests.support.front_end import in_a_loop
from tests.support.ports import free_port
from tests.unit.outside.egress import (
    HOST,
    Edge,
    Reply,
    Web,
    edge,
    open_to,
    raw,
    read_reply,
    request,
    served,
)

from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.ledger import Decision, OutcomeState
from branchpoint_vmruntime.outside import http_side
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.piping import cut
from branchpoint_vmruntime.outside.seams import Patience

IMPATIENT = Patience(idle_s=0.05)


async def ended(it: Edge) -> tuple[OutcomeState, str]:
    """How the only request ended, and what the ledger says of it."""
    outcome = (await it.ended_entry()).outcome
    assert outcome is not None
    return outcome.state, outcome.note


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "ended the connection"),
        (b"SSH-2.0-server\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "no HTTP"),
    ],
)
@in_a_loop
async def test_a_reply_that_is_no_http_is_told_as_such(answer: bytes, words: str) -> None:
    async with served(raw(answer)) as port, edge(open_to(port)) as it:
        reply = await it.get(f"http://{HOST}:{port}/", method="POST", body=b"x")
        state, note = await ended(it)
    assert (reply.status, state) == (502, OutcomeState.UNKNOWN)
    assert words in note
    assert words in reply.body.decode()


@in_a_loop
async def test_a_reply_that_breaks_off_is_seen_to_break_off() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"
    async with served(raw(broken)) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/", body=b"x"))
        with pytest.raises(MachineError):
            await read_reply(end)
        outcome = (await it.ended_entry()).outcome
    assert outcome is not None
    assert (outcome.state, outcome.status) == (OutcomeState.UNKNOWN, 200)


@in_a_loop
async def test_a_chunk_without_end_breaks_off() -> None:
    bomb = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 200_000
    async with served(raw(bomb)) as port, edge(open_to(port)) as it:
        with pytest.raises(MachineError):
            await it.get(f"http://{HOST}:{port}/")
        state, note = await ended(it)
    assert state is OutcomeState.FAILED
    assert "no HTTP" in note


@in_a_loop
async def test_a_server_that_stalls_is_given_up() -> None:
    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with served(stall) as port, edge(open_to(port), patience=IMPATIENT) as it:
        reply = await it.get(f"http://{HOST}:{port}/")
        state, note = await ended(it)
    assert (reply.status, state) == (504, OutcomeState.FAILED)
    assert "nothing passed" in note


@in_a_loop
async def test_a_server_that_resets_is_told_as_such() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await cut(writer)

    async with served(reset) as port, edge(open_to(port)) as it:
        reply = await it.get(f"http://{HOST}:{port}/", method="POST", body=b"x" * 100_000)
        state, _ = await ended(it)
    assert (reply.status, state) == (502, OutcomeState.UNKNOWN)


@in_a_loop
async def test_a_server_may_reply_before_it_has_read_all() -> None:
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with served(raw(early, early=True)) as port, edge(open_to(port)) as it:
        end = it.program()
        head = request("POST", f"http://{HOST}:{port}/", "Content-Length: 1000000000")
        await end.write(head + b"x" * 1000)
        reply = await read_reply(end)
        outcome = (await it.ended_entry()).outcome
    assert (reply.status, reply.body, reply.headers["connection"]) == (413, b"no", "close")
    assert outcome is not None
    assert outcome.state is OutcomeState.DONE


@in_a_loop
async def test_nobody_listening_is_told_as_such() -> None:
    port = free_port()
    async with edge(open_to(port)) as it:
        reply = await it.get(f"http://{HOST}:{port}/", method="POST")
        state, note = await ended(it)
    assert (reply.status, state) == (502, OutcomeState.FAILED)
    assert "cannot be reached" in note


@in_a_loop
async def test_a_name_that_leads_nowhere_is_told_as_such() -> None:
    async with edge(Rule(host=HOST), addresses={HOST: []}) as it:
        reply = await it.get(f"http://{HOST}/")
        state, note = await ended(it)
    assert (reply.status, state) == (502, OutcomeState.FAILED)
    assert "no such name" in note


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1"])
@in_a_loop
async def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    web = Web()
    async with served(web) as port:
        rule = Rule(host=HOST, ports=(port,))
        async with edge(rule, addresses={HOST: ["93.184.215.14", address]}) as it:
            reply = await it.get(f"http://{HOST}:{port}/")
            assert it.entry().draft.decision is Decision.REFUSED
    assert (reply.status, web.heads) == (403, [])
    assert f"%egress allow {HOST}:{port} --private" in reply.body.decode()


@in_a_loop
async def test_a_redirect_to_another_host_is_not_followed_for_the_program() -> None:
    away = [("Location", "http://other.example.org/")]
    async with served(Web(status=302, headers=away)) as port, edge(open_to(port)) as it:
        reply = await it.get(f"http://{HOST}:{port}/")
        assert (reply.status, reply.headers["location"]) == (302, "http://other.example.org/")
        assert (await it.get(reply.headers["location"])).status == 403


@in_a_loop
async def test_much_passes_in_little_memory_and_others_are_served_meanwhile() -> None:
    size = 64 << 20

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size >> 20):
            writer.write(bytes(1 << 20))
            await writer.drain()

    async def swallow(end: FakeEnd) -> int:
        got = 0
        while got < size and (data := await end.read(1 << 20)):
            got += len(data)
        return got

    async with served(pour) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/"))
        tracemalloc.start()
        try:
            got, other = await asyncio.gather(swallow(end), it.get("http://x.example.org/"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert isinstance(other, Reply)
    assert got >= size
    assert peak < 16 << 20


@in_a_loop
async def test_what_is_sent_up_in_much_passes_as_well() -> None:
    size = 8 << 20
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        await it.get(f"http://{HOST}:{port}/", method="PUT", body=bytes(size))
    assert len(web.bodies[0]) == size


@in_a_loop
async def test_a_request_without_end_is_answered() -> None:
    async with edge(Rule(host=HOST)) as it:
        end = it.program()
        await end.write(f"GET http://{HOST}/ HTTP/1.1\r\nX: ".encode() + b"x" * 100_000)
        reply = await read_reply(end)
    assert reply.status == 431


class Slow:
    """A server that has been asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        await self.may_answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()


@in_a_loop
async def test_a_question_is_given_up_with_who_asked_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_side, "DONE_SENDING_S", 0)
    slow = Slow()
    async with served(slow) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/"))
        await slow.asked.wait()
        await end.finish()
        assert await ended(it) == (OutcomeState.FAILED, "the program did not wait for the reply")


@in_a_loop
async def test_what_may_change_something_is_seen_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_side, "DONE_SENDING_S", 0)
    slow = Slow()
    async with served(slow) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("DELETE", f"http://{HOST}:{port}/"))
        await slow.asked.wait()
        await end.finish()
        # By the time that this has passed, so has the other's end.
        assert (await it.get("http://another.example.org/")).status == 403
        slow.may_answer.set()
        assert (await read_reply(end)).status == 200
