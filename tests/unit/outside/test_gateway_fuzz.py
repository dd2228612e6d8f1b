"""The guest is hostile: whatever it sends, the gateway goes on, and lets nothing out by mistake."""

import asyncio
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.front_end import comes_true, in_a_loop
from tests.unit.outside.egress import HOST, Edge, Web, edge, open_to, request, served

from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.ledger import Decision
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.seams import Patience

QUICK = Patience(idle_s=2.0, hello_s=0.5)
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLACES = st.sampled_from(
    [HOST, "other.example.org", "127.0.0.1", "0x7f.1", "[::1]", "localhost", ""]
)
SEEDS = st.sampled_from(
    [
        request("GET", f"http://{HOST}:PORT/a"),
        request("POST", f"http://{HOST}:PORT/a", body=b"some body"),
        request("PUT", f"http://{HOST}:PORT/", "Transfer-Encoding: chunked")
        + b"1\r\nx\r\n0\r\n\r\n",
        request("POST", f"http://{HOST}:PORT/", "Idempotency-Key: k", body=b"b"),
        request("GET", f"http://{HOST}:PORT/", "Connection: Upgrade", "Upgrade: websocket"),
        f"CONNECT {HOST}:PORT HTTP/1.1\r\nHost: {HOST}:PORT\r\n\r\n".encode(),
        b"\x05\x01\x00\x05\x01\x00\x03\x0f" + HOST.encode() + b"\x00\x50",
    ]
)
CUTS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 30), st.binary(max_size=20)), max_size=4
)


def mutated(seed: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    """The seed with pieces taken out and others put in."""
    for at, length, instead in cuts:
        seed = seed[:at] + instead + seed[at + length :]
    return seed


async def say(it: Edge, data: bytes) -> None:
    """Send it as a program does that then waits for the end."""
    end = it.program()
    try:
        await end.write(data)
        await end.finish()
        await end.read_all()
    except MachineError:
        pass


async def still_serves(it: Edge) -> None:
    """A gateway that was harmed would not answer."""
    assert not it.serving.done()
    assert (await it.get("http://nowhere.example.org/")).status == 403


@FEW
@given(st.binary(max_size=2000))
def test_no_bytes_harm_it(data: bytes) -> None:
    @in_a_loop
    async def run() -> None:
        async with edge(Rule(host=HOST), addresses={HOST: []}, patience=QUICK) as it:
            await say(it, data)
            await still_serves(it)

    run()


@FEW
@given(SEEDS, CUTS)
def test_nothing_that_is_nearly_a_request_harms_it_or_fails_in_a_way_that_is_not_foreseen(
    caplog: pytest.LogCaptureFixture, seed: bytes, cuts: list[tuple[int, int, bytes]]
) -> None:
    @in_a_loop
    async def run() -> None:
        async with served(Web()) as port, edge(open_to(port), patience=QUICK) as it:
            await say(it, mutated(seed.replace(b"PORT", str(port).encode()), cuts))
            await still_serves(it)

    caplog.clear()
    run()
    ours = [record for record in caplog.records if record.name.startswith("branchpoint")]
    assert [record for record in ours if record.levelno >= logging.ERROR] == []


@FEW
@given(SEEDS, CUTS, PLACES)
def test_no_server_hears_of_what_was_not_allowed(
    seed: bytes, cuts: list[tuple[int, int, bytes]], place: str
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    @in_a_loop
    async def run() -> None:
        async with served(listen) as port, edge(Rule(host="allowed.example.org")) as it:
            there = seed.replace(HOST.encode(), place.encode()).replace(b"PORT", str(port).encode())
            await say(it, mutated(there, cuts))
            assert all(entry.draft.decision is Decision.REFUSED for entry in it.entries())

    run()
    assert heard == []


@FEW
@given(CUTS, st.sampled_from(["POST", "GET"]))
def test_a_server_hears_no_request_that_is_not_in_the_ledger(
    cuts: list[tuple[int, int, bytes]], method: str
) -> None:
    web = Web()

    @in_a_loop
    async def run() -> None:
        async with served(web) as port, edge(open_to(port, methods=["GET"]), patience=QUICK) as it:
            seed = request(method, f"http://{HOST}:{port}/a", body=b"x" * 40)
            smuggled = request("DELETE", f"http://{HOST}:{port}/b")
            await say(it, mutated(seed, cuts) + smuggled)
            written = [
                entry.draft.url.partition(str(port))[2].encode()
                for entry in it.entries()
                if entry.draft.decision is Decision.ALLOWED
            ]
            # What has left may be still on its way.
            await comes_true(lambda: len(web.heads) >= len(written))
            assert [head.target for head in web.heads] == written

    run()
    assert {head.method for head in web.heads} <= {b"GET"}
