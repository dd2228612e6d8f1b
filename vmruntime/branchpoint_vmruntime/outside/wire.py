"""Two-way streams of bytes, as the proxy sees them: a machine's, a server's, one in TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable
from typing import Protocol, Self, TypeVar

from branchpoint_vmruntime.errors import OutsideError, StreamResetError

Result = TypeVar("Result")
CHUNK_BYTES = 64 << 10
PART_TIMEOUT_S = 5.0
_PART_BYTES = 1 << 20


class Wire(Protocol):
    """What a machine's stream is too.

    A guest's fails with MachineError, a server's with OutsideError.
    """

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room."""
        ...

    async def finish(self) -> None:
        """Say that no more will be sent."""
        ...

    async def close(self) -> None:
        """End it both ways, at once. Closing twice is fine."""
        ...


class Unread:
    """A wire of which some bytes were read to see what it bears."""

    def __init__(self, wire: Wire, data: bytes = b"") -> None:
        self._wire = wire
        self._data = data

    async def peek(self) -> bytes:
        """What comes next, left in place; none at the end."""
        if not self._data:
            self._data = await self._wire.read()
        return self._data

    async def exactly(self, count: int) -> bytes:
        """So many bytes; StreamResetError if it ends before."""
        while len(self._data) < count:
            more = await self._wire.read()
            if not more:
                raise StreamResetError("the stream ended in the middle of what it began")
            self._data += more
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end."""
        if self._data:
            taken, self._data = self._data[:limit], self._data[limit:]
            return taken
        return await self._wire.read(limit)

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room."""
        await self._wire.write(data)

    async def finish(self) -> None:
        """Say that no more will be sent."""
        await self._wire.finish()

    async def close(self) -> None:
        """End it both ways, at once."""
        await self._wire.close()


class SocketWire:
    """A connection of the host's to a server. OutsideError, in words, once it is cut off."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._name = name
        # So that draining means that nothing of ours is left to be sent.
        writer.transport.set_write_buffer_limits(high=0)

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end."""
        try:
            return await self._reader.read(limit)
        except OSError as error:
            raise self._cut_off(error) from error

    async def write(self, data: bytes) -> None:
        """Send; waits until it is on its way."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise self._cut_off(error) from error

    async def finish(self) -> None:
        """Say that no more will be sent. In TLS that ends both ways."""
        try:
            if self._writer.can_write_eof():
                self._writer.write_eof()
            else:
                self._writer.close()
        except OSError as error:
            raise self._cut_off(error) from error

    async def close(self) -> None:
        """End it both ways, at once."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _cut_off(self, error: OSError) -> OutsideError:
        return OutsideError(
            f"the connection to {self._name} was cut off: {error.strerror or error or 'reset'}"
        )


class TlsWire:
    """The server's side of TLS over a guest's wire. StreamResetError where TLS is broken."""

    def __init__(self, wire: Wire, context: ssl.SSLContext) -> None:
        self._wire = wire
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = asyncio.Lock()

    @classmethod
    async def accept(cls, wire: Wire, context: ssl.SSLContext) -> Self:
        """Shake hands with a client; StreamResetError in words if it will not."""
        it = cls(wire, context)
        while True:
            try:
                it._tls.do_handshake()
            except ssl.SSLWantReadError:
                await it._flush()
                await it._more()
            except ssl.SSLError as error:
                # The alert that says why is among what is to be sent.
                await it._flush()
                raise StreamResetError(f"no TLS with the program: {error.reason}") from error
            else:
                await it._flush()
                return it

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end."""
        while True:
            try:
                return self._tls.read(limit)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._more()
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLError as error:
                raise StreamResetError(f"TLS with the program broke: {error.reason}") from error

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room."""
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise StreamResetError(f"TLS with the program broke: {error.reason}") from error
        await self._flush()

    async def finish(self) -> None:
        """Say that no more will be sent."""
        # It wants the other side's goodbye as well, which reading takes in.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        await self._wire.finish()

    async def close(self) -> None:
        """End it both ways, at once."""
        await self._wire.close()

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._outgoing.read():
                await self._wire.write(data)

    async def _more(self) -> None:
        if data := await self._wire.read():
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def part(wire: Wire) -> None:
    """End a wire so that all that was sent is read, if the other side reads it in a moment."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PART_TIMEOUT_S):
            await wire.finish()
            taken = 0
            while taken < _PART_BYTES and (data := await wire.read()):
                taken += len(data)
    await wire.close()


async def within(seconds: float, waiting: Awaitable[Result]) -> Result:
    """What is waited for; StreamResetError if the program takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError as error:
        raise StreamResetError(f"the program said nothing for {seconds:g} s") from error
