"""Servers that give up on a program before it begins: it gets another connection, once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.front_end import comes_true, in_a_loop
from tests.unit.outside.egress import edge, open_to, served, tunnel

from branchpoint_vmruntime.errors import MachineError, OutsideError
from branchpoint_vmruntime.ledger import OutcomeState
from branchpoint_vmruntime.outside import tunnel as tunnels
from branchpoint_vmruntime.outside.piping import cut
from branchpoint_vmruntime.outside.renewal import Renewable
from branchpoint_vmruntime.outside.seams import Patience

PATIENCE_S = 120.0
# Linux, include/net/tcp_states.h.
ESTABLISHED = "01"
HELLO = b"\x16hello"


class Scripted:
    """A server's wire: what it says next, or how it ends, is put into `says`."""

    def __init__(self, *says: bytes | OutsideError) -> None:
        self.says: asyncio.Queue[bytes | OutsideError] = asyncio.Queue()
        for one in says:
            self.says.put_nowait(one)
        self.heard: list[bytes] = []
        self.is_finished = self.is_closed = False

    async def read(self, limit: int = 0) -> bytes:
        said = await self.says.get()
        if isinstance(said, OutsideError):
            raise said
        return said

    async def write(self, data: bytes) -> None:
        self.heard.append(data)

    async def finish(self) -> None:
        self.is_finished = True

    async def close(self) -> None:
        self.is_closed = True


RESET = OutsideError("reset")
ENDINGS = pytest.mark.parametrize("ending", [RESET, b""], ids=["reset", "end"])


def renewable(*wires: Scripted, patience_s: float = PATIENCE_S) -> Renewable:
    """The first, and in its place the others."""
    first, *others = wires

    async def again() -> Scripted:
        return others.pop(0)

    return Renewable(first, again, patience_s=patience_s)


async def ended_in_silence(wire: Renewable) -> "asyncio.Task[bytes]":
    """Its reading, once it has seen the end of the first."""
    reading = asyncio.create_task(wire.read(10))
    await asyncio.sleep(0)
    return reading


@ENDINGS
@in_a_loop
async def test_the_program_speaks_to_a_new_connection(ending: bytes | OutsideError) -> None:
    first, second = Scripted(ending), Scripted(b"answer")
    wire = renewable(first, second)
    reading = await ended_in_silence(wire)
    await wire.write(HELLO)
    assert await reading == b"answer"
    assert (first.heard, second.heard) == ([], [HELLO])
    await wire.close()
    assert (first.is_closed, second.is_closed) == (True, True)


@in_a_loop
async def test_what_was_sent_is_not_sent_again() -> None:
    first, second = Scripted(), Scripted()
    wire = renewable(first, second)
    reading = await ended_in_silence(wire)
    await wire.write(HELLO)
    first.says.put_nowait(RESET)
    with pytest.raises(OutsideError):
        await reading
    assert (first.heard, second.heard) == ([HELLO], [])


@in_a_loop
async def test_a_server_that_has_spoken_may_end() -> None:
    wire = renewable(Scripted(b"welcome", RESET), Scripted())
    assert await wire.read(10) == b"welcome"
    with pytest.raises(OutsideError):
        await wire.read(10)


@ENDINGS
@in_a_loop
async def test_a_second_end_is_the_programs_to_see(ending: bytes | OutsideError) -> None:
    wire = renewable(Scripted(RESET), Scripted(ending), Scripted(b"never"))
    reading = await ended_in_silence(wire)
    await wire.write(HELLO)
    assert await outcome(reading) == ending


@ENDINGS
@in_a_loop
async def test_a_program_that_never_begins_sees_the_end(ending: bytes | OutsideError) -> None:
    wire = renewable(Scripted(ending), Scripted(b"never"), patience_s=0)
    assert await outcome(await ended_in_silence(wire)) == ending


@ENDINGS
@in_a_loop
async def test_a_program_that_is_done_without_a_word_sees_the_end(
    ending: bytes | OutsideError,
) -> None:
    first = Scripted(ending)
    wire = renewable(first, Scripted(b"never"))
    reading = await ended_in_silence(wire)
    await wire.finish()
    assert await outcome(reading) == ending
    assert first.is_finished


async def outcome(reading: "asyncio.Task[bytes]") -> bytes | OutsideError:
    """What was read, or how that failed."""
    try:
        return await reading
    except OutsideError as error:
        return error


def is_connected_to(port: int) -> bool:
    """Whether this host has a connection that leads to that port, as far as it knows."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(
        it[2].endswith(f":{port:04X}") and it[3] == ESTABLISHED for it in map(str.split, lines)
    )


class Impatient:
    """A server that resets its first callers unheard, and answers the next."""

    def __init__(self, resets: int) -> None:
        self._resets = resets
        self.callers = 0
        self.is_rid = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.callers += 1
        if self.callers <= self._resets:
            port = writer.get_extra_info("sockname")[1]
            await cut(writer)
            await comes_true(lambda: not is_connected_to(port))
            # What the system has heard of, the loop hears of at its next turns.
            for _ in range(10):
                await asyncio.sleep(0)
            self.is_rid.set()
            return
        writer.write(b"heard " + await reader.read(100))
        await writer.drain()


async def through(
    server: Impatient, port: int, says: Sequence[bytes]
) -> tuple[bytes, OutcomeState]:
    """What a program got through a tunnel that was reset, and how the one entry ended."""
    async with edge(open_to(port), patience=Patience(hello_s=PATIENCE_S)) as it:
        end, reply = await tunnel(it, port)
        assert reply.status == 200
        await server.is_rid.wait()
        for data in says:
            await end.write(data)
        try:
            got = await end.read()
        except MachineError:
            got = b""
        await end.finish()
        entry = await it.ended_entry()
    assert entry.outcome is not None
    return got, entry.outcome.state


@in_a_loop
async def test_a_tunnel_outlives_a_server_that_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Impatient(resets=1)
    async with served(server) as port:
        monkeypatch.setattr(tunnels, "HTTPS_PORT", port)
        assert await through(server, port, [HELLO]) == (b"heard " + HELLO, OutcomeState.DONE)
    assert server.callers == 2


@in_a_loop
async def test_a_tunnel_of_another_kind_ends_with_its_server() -> None:
    server = Impatient(resets=1)
    async with served(server) as port:
        assert (await through(server, port, []))[1] is OutcomeState.FAILED
    assert server.callers == 1
