"""The streams of one machine over their port: the host's end."""

import asyncio
import copy
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

from branchpoint_guest import mux, wire
from branchpoint_guest.mux import Event, Mux
from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    MachineError,
    StreamResetError,
)

# What may wait here of one stream before its writer waits itself.
WAITING_LIMIT_BYTES = 64 << 10
# Opened by the guest and taken by nobody yet: a burst, or a machine that nobody serves.
UNACCEPTED_LIMIT = 256


def _fresh(error: MachineError) -> MachineError:
    """The same error to raise once more: one object would gather the traces of all who got it."""
    return copy.copy(error)


class LinkedStream:
    """The host's end of a stream. Implements `streams.Stream`."""

    def __init__(self, link: "StreamLink", number: int, purpose: Sequence[str]) -> None:
        self.number = number
        self._link = link
        self._purpose = tuple(purpose)
        self._buffer = bytearray()
        self._changed = asyncio.Event()
        self._is_done = False
        self._other_is_done = False
        self._is_closed = False
        self._cut: MachineError | None = None

    @property
    def purpose(self) -> Sequence[str]:
        """What it was opened for."""
        return self._purpose

    async def read(self, limit: int = 65536) -> bytes:
        """Some bytes as they come; none once the guest is done.

        What had come when it was cut off is given before the error.
        """
        await self._until(lambda: bool(self._buffer) or self._other_is_done)
        if self._is_closed:
            raise StreamResetError("the stream is closed")
        if not self._buffer and not self._other_is_done and self._cut is not None:
            raise _fresh(self._cut)
        data = bytes(self._buffer[:limit])
        del self._buffer[: len(data)]
        self._link.note_taken(self, len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Send; waits while the guest has no room."""
        rest = memoryview(data)
        while rest:
            await self._link.wait_for_room(self, self._until)
            self._check_open()
            # A copy: it goes out later, and whose buffer it is may change it meanwhile.
            self._link.write(self, bytes(rest[:WAITING_LIMIT_BYTES]))
            rest = rest[WAITING_LIMIT_BYTES:]

    async def finish(self) -> None:
        """Say, after all that was written, that no more will be sent."""
        if not self._is_done:
            self._check_open()
            self._is_done = True
            self._link.finish(self)

    async def close(self) -> None:
        """End it at once, both ways."""
        if not self._is_closed:
            self._is_closed = True
            self._buffer.clear()
            self._link.close(self)
            self._changed.set()

    def note_data(self, data: bytes) -> None:
        """Called by the link: bytes of the guest's."""
        self._buffer += data
        self._changed.set()

    def note_end(self) -> None:
        """Called by the link: the guest is done."""
        self._other_is_done = True
        self._changed.set()

    def note_room(self) -> None:
        """Called by the link: some of what waited has been sent."""
        self._changed.set()

    def note_cut(self, error: MachineError) -> None:
        """Called by the link: it is cut off."""
        self._cut = self._cut or error
        self._changed.set()

    def _check_open(self) -> None:
        if self._cut is not None:
            raise _fresh(self._cut)
        if self._is_closed or self._is_done:
            raise StreamResetError("nothing more can be sent: the stream was closed on this side")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not (condition() or self._is_closed or self._cut is not None):
            self._changed.clear()
            await self._changed.wait()


class StreamLink(asyncio.Protocol):
    """All streams of one machine. Implements `streams.StreamChannel`.

    It is always read: only credit holds the guest back. What the guest sends that makes no sense
    ends its streams, and nothing else of the machine.
    """

    def __init__(self, console: Path) -> None:
        self.sent = 0
        self.received = 0
        self._generation = 0
        self._console = console
        self._reader = wire.FrameReader(mux.MOST_BODY_BYTES)
        self._mux = Mux.of_host()
        self._streams: dict[int, LinkedStream] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._unaccepted: deque[LinkedStream] = deque()
        self._writers: set[LinkedStream] = set()
        self._arrived = asyncio.Event()
        self._is_at_rest = True
        self._is_writable = True
        self._transport: asyncio.Transport | None = None
        self._end: MachineError | None = None

    @classmethod
    async def connect(cls, sock: socket.socket, console: Path) -> "StreamLink":
        """Speak over our end of the pair; takes the socket over. Nothing is sent until `resume`."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(console), sock=sock)
        return link

    @property
    def generation(self) -> int:
        """The number of this waking, on every frame. A new one cuts all streams off."""
        return self._generation

    @generation.setter
    def generation(self, number: int) -> None:
        self._generation = number
        self.sent = 0
        self.received = 0
        self._is_at_rest = True
        self._mux = Mux.of_host()
        self._cut_all(StreamResetError("the machine woke anew; its streams of before are cut off"))

    @property
    def is_ended(self) -> bool:
        """Whether no stream is left and none can come."""
        return self._end is not None

    def has_for(self, word: str) -> bool:
        """Whether one is open whose purpose begins with that word."""
        return any(stream.purpose[0] == word for stream in self._streams.values())

    async def accept(self) -> LinkedStream:
        """The next stream that the guest opens. MachineEndedError once no more can come."""
        await self._wait_arrived(lambda: bool(self._unaccepted))
        stream = self._unaccepted.popleft()
        self._mux.accept(stream.number)
        self._write()
        return stream

    async def open(self, *purpose: str, timeout_s: float = 30.0) -> LinkedStream:
        """Open one to the guest. GuestRefusedError, GuestSilentError, MachineEndedError."""
        if self._end is not None:
            raise self._end
        if not self._mux.may_open:
            raise GuestRefusedError(f"{mux.MOST_STREAMS} streams to the machine are open already")
        stream = self._add(self._mux.open(purpose), purpose)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[stream.number] = answer
        self._write()
        try:
            async with asyncio.timeout(timeout_s):
                await answer
        except BaseException as error:
            await stream.close()
            if isinstance(error, TimeoutError):
                raise GuestSilentError(" ".join(purpose), timeout_s, self._console) from error
            raise
        return stream

    def note_taken(self, stream: LinkedStream, count: int) -> None:
        """Called by a stream: so many bytes of it were read."""
        if self._has(stream):
            self._mux.taken(stream.number, count)
            self._write()

    def write(self, stream: LinkedStream, data: bytes) -> None:
        """Called by a stream: bytes to send."""
        if self._has(stream):
            self._mux.write(stream.number, data)
            self._write()

    async def wait_for_room(
        self, stream: LinkedStream, until: Callable[[Callable[[], bool]], Awaitable[None]]
    ) -> None:
        """Called by a stream, with its way to wait: until little of it waits here."""

        def has_room() -> bool:
            return self._mux.waiting_bytes(stream.number) < WAITING_LIMIT_BYTES

        self._writers.add(stream)
        try:
            await until(has_room)
        finally:
            self._writers.discard(stream)

    def finish(self, stream: LinkedStream) -> None:
        """Called by a stream: no more will be written to it."""
        if self._has(stream):
            self._mux.finish(stream.number)
            self._write()

    def close(self, stream: LinkedStream) -> None:
        """Called by a stream: nobody has a use for it any more."""
        if self._has(stream):
            self._mux.close(stream.number, "it was closed on the host")
            self._remove(stream)
            self._write()

    def quiesce(self) -> int:
        """Send nothing more; the number of frames sent in this incarnation.

        The guest waits for them. What waits here to be sent goes on after `resume`.
        """
        self._is_at_rest = True
        return self.sent

    async def wait_received(self, count: int) -> None:
        """Wait until that many frames of this incarnation have arrived here."""
        await self._wait_arrived(lambda: self.received >= count)

    def resume(self) -> None:
        """Send again."""
        self._is_at_rest = False
        self._write()

    def fail(self, error: MachineError) -> None:
        """No stream is left, and none will come, for this reason."""
        self._end = self._end or error
        self._cut_all(self._end)
        self._arrived.set()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        # So that an answer has no more than about a frame before it.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            for frame in self._reader.feed(data):
                if frame.kind == wire.STREAM and frame.generation == self.generation:
                    self.received += 1
                    self._take(self._mux.take(frame.body))
        except wire.WireError as error:
            text = f"what the machine sent on its streams could not be understood: {error}"
            self.fail(MachineEndedError(text))
        self._arrived.set()
        self._write()

    def pause_writing(self) -> None:
        """Called by asyncio, from within a write that did not go through at once."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._is_writable = True
        self._write()

    def _take(self, event: Event | None) -> None:
        if event is None:
            return
        if event.verb == mux.OPEN:
            self._take_open(event)
            return
        stream = self._streams.get(event.stream)
        if stream is None:
            return
        match event.verb:
            case mux.DATA:
                stream.note_data(event.data)
            case mux.END:
                stream.note_end()
            case mux.OPENED:
                self._settle(stream, None)
            case mux.REFUSED:
                self._cut(stream, GuestRefusedError(" ".join(event.texts)))
            case mux.RESET:
                self._cut(stream, StreamResetError(" ".join(event.texts)))
            case _:
                pass

    def _take_open(self, event: Event) -> None:
        if len(self._unaccepted) < UNACCEPTED_LIMIT:
            self._unaccepted.append(self._add(event.stream, event.texts))
        else:
            words = f"{UNACCEPTED_LIMIT} streams wait already, and nobody on the host takes them"
            self._mux.refuse(event.stream, words)

    def _add(self, number: int, purpose: Sequence[str]) -> LinkedStream:
        stream = self._streams[number] = LinkedStream(self, number, purpose)
        return stream

    def _has(self, stream: LinkedStream) -> bool:
        """Whether it is still one of ours; its number may be that of another by now."""
        return self._streams.get(stream.number) is stream

    def _remove(self, stream: LinkedStream) -> None:
        del self._streams[stream.number]
        self._asked.pop(stream.number, None)
        if stream in self._unaccepted:
            self._unaccepted.remove(stream)

    def _settle(self, stream: LinkedStream, error: MachineError | None) -> None:
        answer = self._asked.pop(stream.number, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    def _cut(self, stream: LinkedStream, error: MachineError) -> None:
        self._settle(stream, error)
        self._remove(stream)
        stream.note_cut(error)

    def _cut_all(self, error: MachineError) -> None:
        for stream in list(self._streams.values()):
            self._cut(stream, error)

    async def _wait_arrived(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._end is not None:
                raise self._end
            self._arrived.clear()
            await self._arrived.wait()

    def _write(self) -> None:
        while self._is_writable and not self._is_at_rest and self._end is None:
            if self._transport is None:
                break
            frame = self._mux.next_frame(self.generation)
            if frame is None:
                break
            self.sent += 1
            self._transport.write(frame)
        for stream in self._writers:
            if self._mux.waiting_bytes(stream.number) < WAITING_LIMIT_BYTES:
                stream.note_room()
