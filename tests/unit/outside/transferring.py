"""A machine as transfers see it: the guest's own code, with a folder of the test's for its home."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.support.fake_streams import FakeChannel, FakeEnd

from branchpoint_guest import transfer
from branchpoint_guest.stream_handlers import GuestStream
from branchpoint_vmruntime.errors import MachineError

# More than fits into the window of a stream.
MUCH = os.urandom(3 << 20)


class Guest:
    """Serves what is opened on its channel. `on_heard` is told of every part that comes to it."""

    def __init__(self, home: Path, *, window_bytes: int = 64 << 10) -> None:
        self.home = home
        self.channel = FakeChannel(self._serve, window_bytes=window_bytes)
        self.on_heard: Callable[[], None] | None = None
        self._handling: set[asyncio.Task[None]] = set()

    async def settle(self) -> None:
        """Wait until all that it was doing is over."""
        await asyncio.gather(*self._handling)

    async def _serve(self, end: FakeEnd) -> None:
        word, *arguments = end.purpose
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str | None] = loop.create_future()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003

        def answer(refusal: str | None) -> None:
            loop.call_soon_threadsafe(answered.set_result, refusal)

        stream = GuestStream(theirs, answer)
        handling = asyncio.create_task(asyncio.to_thread(_handle, word, stream, arguments))
        self._handling.add(handling)
        try:
            refusal = await answered
            if refusal is not None:
                end.refuse(refusal)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._down(end, ours))
                pumps.create_task(_up(end, ours))
        except* (MachineError, OSError):
            # Cut off by the host or with the machine.
            pass
        finally:
            stream.cut = True
            ours.close()
            await handling

    async def _down(self, end: FakeEnd, ours: socket.socket) -> None:
        while data := await end.read():
            await asyncio.get_running_loop().sock_sendall(ours, data)
            if self.on_heard is not None:
                self.on_heard()
        ours.shutdown(socket.SHUT_WR)


async def _up(end: FakeEnd, ours: socket.socket) -> None:
    while data := await asyncio.get_running_loop().sock_recv(ours, 65536):
        await end.write(data)
    await end.finish()


def _handle(word: str, stream: GuestStream, arguments: list[str]) -> None:
    try:
        transfer.HANDLERS[word](stream, arguments)
    finally:
        stream.close()


def names_below(folder: Path) -> set[str]:
    """Every name below a folder, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def file_in(folder: Path, content: bytes = MUCH, name: str = "data.bin") -> Path:
    """A file that is to come in or to go out."""
    path = folder / name
    path.write_bytes(content)
    return path
