"""Machines that are not there, with programs that listen in them, and clients of their forwards."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.support.fake_streams import FakeChannel, FakeEnd

from branchpoint_vmruntime.errors import GuestRefusedError, UsageError
from branchpoint_vmruntime.outside.forwarding import ADDRESS, Forward, Forwards
from branchpoint_vmruntime.streams import StreamChannel

Program = Callable[[FakeEnd], Awaitable[None]]
PORT = 8000


def machine(program: Program, port: int = PORT) -> FakeChannel:
    """A machine in which one program listens, at one port."""

    async def connect(end: FakeEnd) -> None:
        if end.purpose != ("connect", str(port)):
            raise GuestRefusedError(f"nothing listens at port {end.purpose[1]}")
        end.accept()
        await program(end)

    return FakeChannel(connect)


def says(words: bytes) -> Program:
    """A program that says the same to everyone and is done."""

    async def program(end: FakeEnd) -> None:
        await end.write(words)
        await end.finish()
        await end.read_all()

    return program


async def echo(end: FakeEnd) -> None:
    """A program that gives back what it is given, as it comes."""
    while data := await end.read():
        await end.write(data)
    await end.finish()


async def count(end: FakeEnd) -> None:
    """A program that takes everything, and then says how much that was."""
    taken = len(await end.read_all())
    await end.write(str(taken).encode())
    await end.finish()


class Branches:
    """The machines of a session's branches, as `Forwards` is told of them."""

    def __init__(self, **channels: FakeChannel) -> None:
        self.channels: dict[str, FakeChannel] = channels
        self.paused: dict[str, FakeChannel] = {}
        self.current = next(iter(channels))

    def pause(self, name: str) -> None:
        """Take a branch its machine until it is wanted."""
        self.paused[name] = self.channels.pop(name)

    async def awake(self, name: str) -> None:
        """Give it back."""
        await asyncio.sleep(0)
        if name in self.paused:
            self.channels[name] = self.paused.pop(name)

    def channel_of(self, branch: str | None) -> StreamChannel:
        name = branch or self.current
        if name not in self.channels:
            raise UsageError(f"branch {name!r} is parked and has no machine")
        return self.channels[name]


@asynccontextmanager
async def forwards_of(branches: Branches, *, at_once: int = 256) -> AsyncGenerator[Forwards]:
    """The forwards of a session; its machines end after them."""
    async with Forwards(
        branches.channel_of,
        lambda: branches.current,
        awake=branches.awake,
        is_paused=branches.paused.__contains__,
        max_connections=at_once,
    ) as forwards:
        yield forwards
    for channel in branches.channels.values():
        await channel.end()


class Client:
    """One connection through a forward."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def of(cls, forward: Forward) -> "AsyncGenerator[Client]":
        """A connection, ended at once on leaving."""
        client = cls(*await asyncio.open_connection(ADDRESS, forward.host_port))
        try:
            yield client
        finally:
            client.writer.transport.abort()
            with suppress(ConnectionResetError):
                await client.writer.wait_closed()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def was_reset(self) -> bool:
        """Wait for the end of the connection; whether it was a reset."""
        try:
            await self.reader.read()
        except ConnectionResetError:
            return True
        return False


async def ask(forward: Forward, words: bytes = b"") -> bytes:
    """Say something through a forward, say that this was all, and take all that comes."""
    async with Client.of(forward) as client:
        client.writer.write(words)
        client.writer.write_eof()
        return await client.reader.read()


def taken_port() -> socket.socket:
    """A socket that listens on the host."""
    other = socket.socket()
    other.bind((ADDRESS, 0))
    other.listen()
    return other


async def settled(amount: Callable[[], int]) -> int:
    """An amount, once it grows no more."""
    before, unchanged = amount(), 0
    while unchanged < 20:
        await asyncio.sleep(0.005)
        unchanged = unchanged + 1 if amount() == before else 0
        before = amount()
    return before
