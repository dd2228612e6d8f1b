"""Streams into and out of a real machine: whole, past checkpoints, and never in the way."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest

from branchpoint_vmruntime import Runtime
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import MachineEndedError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.streams import Stream

pytestmark = pytest.mark.vm

MB = 1 << 20
BLOCK = bytes(range(256)) * 4096
PATIENCE_S = 120.0

PROGRAM = r"""
import hashlib, socket, threading, time
block = bytes(range(256)) * 4096

class Serving(threading.Thread):
    "Does something with whoever connects first, and keeps what came of it."
    def __init__(self, do):
        super().__init__(daemon=True)
        self.do, self.result = do, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()
    def run(self):
        self.connection = self.listener.accept()[0]
        self.result = self.do(self.connection)

def send(connection):
    for _ in range(6):
        connection.sendall(block)
    connection.close()

def send_without_end(connection):
    while True:
        connection.sendall(block)

def take(connection):
    digest = hashlib.sha256()
    while data := connection.recv(1 << 16):
        digest.update(data)
    return digest.hexdigest()

def hold(connection):
    connection.sendall(b"held")

def how_it_ended(connection):
    connection.settimeout(60)
    began = time.monotonic()
    try:
        return repr(connection.recv(1))
    except OSError as error:
        return f"{type(error).__name__} after {time.monotonic() - began:.3f} s"

near = socket.create_server(("127.0.0.1", 0))
here = socket.create_connection(near.getsockname())
there = near.accept()[0]
def loopback_lives():
    here.sendall(b"x")
    return there.recv(1) == b"x"
"""


async def value(branch: Branch, code: str) -> str:
    """What an expression prints in a machine."""
    result = await branch.run(f"print({code})", timeout_s=PATIENCE_S)
    assert result.status == "ok", result
    return result.text.strip()


async def serve(branch: Branch, what: str) -> Stream:
    """Open a stream to a program in the machine that does that with it."""
    result = await branch.run(f"serving = Serving({what})", timeout_s=PATIENCE_S)
    assert result.status == "ok", result
    port = await value(branch, "serving.port")
    return await branch.streams.open("connect", port, timeout_s=PATIENCE_S)


async def read_all(stream: Stream) -> bytes:
    """All that comes, to its end."""
    pieces: list[bytes] = []
    while piece := await stream.read():
        pieces.append(piece)
    return b"".join(pieces)


async def echoed(branch: Branch, data: bytes) -> bytes:
    """What comes back of data that the machine echoes."""
    stream = await branch.streams.open("echo", timeout_s=PATIENCE_S)

    async def send() -> None:
        await stream.write(data)
        await stream.finish()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        back = group.create_task(read_all(stream))
    await stream.close()
    return back.result()


def run(home: Home, work: Callable[[OwnedSession], Awaitable[None]]) -> None:
    """Do something with a session whose machine has the programs above."""

    async def whole() -> None:
        async with Runtime(home) as runtime, runtime.session() as session:
            result = await session.current.run(PROGRAM)
            assert result.status == "ok", result
            async with asyncio.timeout(PATIENCE_S):
                await work(session)

    asyncio.run(whole())


def test_megabytes_pass_both_ways_while_cells_run(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        branch = session.current
        passing = asyncio.create_task(echoed(branch, BLOCK * 8))
        answers = [await value(branch, f"{number} * {number}") for number in range(5)]
        assert answers == ["0", "1", "4", "9", "16"]
        assert await passing == BLOCK * 8

    run(home, work)


def test_a_stream_that_nobody_reads_delays_neither_a_cell_nor_a_checkpoint(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        branch = session.current
        stalled = await serve(branch, "send_without_end")
        assert await value(branch, "6 * 7") == "42"
        await session.checkpoint("stalled")
        assert await echoed(branch, b"lively") == b"lively"
        assert BLOCK.startswith(await stalled.read(1000))

    run(home, work)


def test_a_checkpoint_in_the_middle_of_a_transfer_loses_no_byte_either_way(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        branch = session.current
        down = await serve(branch, "take")
        sending = asyncio.create_task(down.write(BLOCK * 6))
        up = await serve(branch, "send")
        begun = await up.read(100_000)
        reading = asyncio.create_task(read_all(up))
        for number in range(2):
            await session.checkpoint(f"under-way-{number}")
        assert begun + await reading == BLOCK * 6
        down_serving = "[t for t in threading.enumerate() if getattr(t, 'do', None) is take][0]"
        taking = await branch.run(f"taking = {down_serving}")
        assert taking.status == "ok", taking
        await sending
        await down.finish()
        digest = await value(branch, "taking.join() or taking.result")
        assert digest == hashlib.sha256(BLOCK * 6).hexdigest()

    run(home, work)


def test_after_a_rollback_and_in_a_fork_programs_see_their_connections_cut_off(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        branch = session.current
        proxied = "proxied = socket.create_connection(('127.0.0.1', 3128))"
        assert (await branch.run(proxied)).status == "ok"
        stream = await serve(branch, "hold")
        assert await stream.read() == b"held"
        point = await session.checkpoint("held")
        (fork,) = await session.fork(1, start=point)
        await session.rollback(point, safety=False)
        with pytest.raises(MachineEndedError):
            await stream.read()
        for woken in (fork, session.current):
            for connection in ("serving.connection", "proxied"):
                ended = await value(woken, f"how_it_ended({connection})")
                assert ended.startswith("ConnectionResetError")
            assert await value(woken, "loopback_lives()") == "True"
            assert await echoed(woken, b"anew") == b"anew"

    run(home, work)


def test_two_hundred_streams_at_once_each_carry_their_own(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        branch = session.current
        sent = [b"%d " % number * 200 for number in range(200)]
        assert await asyncio.gather(*(echoed(branch, data) for data in sent)) == sent
        assert await value(branch, "6 * 7") == "42"

    run(home, work)
