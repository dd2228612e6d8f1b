"""Joins a TCP connection on the host to a stream of a machine, until both ends are done."""

import asyncio
import contextlib
import socket
import struct

from branchpoint_vmruntime.streams import Stream

CHUNK_BYTES = 64 << 10
_NO_LINGER = struct.pack("ii", 1, 0)


async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream) -> None:
    """Carry bytes both ways until each end has said that it is done; then all has arrived.

    An ExceptionGroup of MachineError or OSError if either side was cut off: `cut` the other then.
    """
    async with asyncio.TaskGroup() as both:
        both.create_task(_inward(reader, stream))
        both.create_task(_outward(stream, writer))
    writer.close()
    await writer.wait_closed()


async def cut(writer: asyncio.StreamWriter) -> None:
    """Reset a connection, and see it gone."""
    reset(writer)
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, so that its peer sees a reset. Nothing happens if it has ended."""
    # Closed without this, a connection whose peer was cut off in a reply looks like its end.
    with contextlib.suppress(OSError):
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


async def _inward(reader: asyncio.StreamReader, stream: Stream) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await stream.write(data)
    await stream.finish()


async def _outward(stream: Stream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
