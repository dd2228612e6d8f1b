"""A guest without a machine: guestd, relay and streamd as the host hears them."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from branchpoint_guest import wire
from branchpoint_guest.mux import Event, Mux

Message = dict[str, Any]
NONCE = "c0ffee"


class FakeGuest:
    """Answers what the host asks as `replies` says: None is silence, an `error` a refusal.

    What is not in `replies` is done as guestd, the relay and streamd do it. While `listening` is
    not set nothing is read from the kernel port. What the host does to streams is in `streamed`.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.replies: dict[str, Message | None] = {}
        self.awake = ["random,numpy", "0", "8000", "20000", "50000"]
        self.asked: list[Message] = []
        self.orders: list[list[str]] = []
        self.times: asyncio.Queue[float] = asyncio.Queue()
        self.inbox: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.received = 0
        self.sent = 0
        self.mux = Mux.of_guest()
        self.streamed: asyncio.Queue[Event] = asyncio.Queue()
        self.frames_received = 0
        self.frames_sent = 0
        self.listening = asyncio.Event()
        self.listening.set()
        self._arrived = asyncio.Condition()
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self, control: socket.socket, kernel: socket.socket, streams: socket.socket
    ) -> None:
        """Take up all ports."""
        self._control_in, self._control = await asyncio.open_connection(sock=control)
        self._kernel_in, self._kernel = await asyncio.open_connection(sock=kernel)
        self._streams_in, self._streams = await asyncio.open_connection(sock=streams)
        self._start(self._serve_streams())
        self._start(self._serve_control())
        self._start(self._serve_kernel())

    async def close(self) -> None:
        """Let go of all ports."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._control.close()
        self._kernel.close()
        # What nobody may take any more would keep it open.
        self._streams.transport.abort()

    def say(self, message: Message, *, generation: int | None = None) -> None:
        """A control message of the guest's own accord, or a late or stale one."""
        number = self.generation if generation is None else generation
        self._control.write(wire.encode_control(number, message))

    def write_control(self, data: bytes) -> None:
        """Raw bytes on the control port."""
        self._control.write(data)

    def write_kernel(self, data: bytes) -> None:
        """Raw bytes on the kernel port."""
        self._kernel.write(data)

    def speak(self, parts: Sequence[bytes], *, generation: int | None = None) -> None:
        """A message of the kernel's."""
        number = self.generation if generation is None else generation
        lane = wire.lane_of(parts[0])
        self._kernel.write(wire.encode(wire.MESSAGE, number, wire.pack_parts(parts), lane))
        self.sent += 1

    def stream(self) -> None:
        """Send what there is to send on streams."""
        while (frame := self.mux.next_frame(self.generation)) is not None:
            self._streams.write(frame)
            self.frames_sent += 1

    def write_streams(self, data: bytes) -> None:
        """Raw bytes on the port for streams."""
        self._streams.write(data)

    def close_streams(self) -> None:
        """Let go of the port for streams."""
        self._streams.close()

    async def wait_asked(self, op: str) -> None:
        """Until the host has asked that."""
        while op not in [
            *(message["op"] for message in self.asked),
            *("wake" for _ in self.orders),
        ]:
            self._news.clear()
            await self._news.wait()

    async def ask_time(self) -> float:
        """The host's time."""
        self._control.write(wire.encode(wire.Kind.CLOCK, self.generation, b""))
        return await self.times.get()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)

    async def _serve_control(self) -> None:
        frames = wire.FrameReader()
        while data := await self._control_in.read(1 << 16):
            for frame in frames.feed(data):
                match frame.kind:
                    case wire.CLOCK:
                        self.times.put_nowait(wire.unpack_time(frame.body))
                    case wire.WAKE:
                        self._start(self._wake(wire.unpack_fields(frame.body)))
                    case _:
                        self._start(self._answer(wire.decode_control(frame)))

    async def _answer(self, message: Message) -> None:
        self.asked.append(message)
        self._news.set()
        op = message["op"]
        if op in self.replies:
            fields = self.replies[op]
        elif op == "freeze":
            async with self._arrived:
                await self._arrived.wait_for(
                    lambda: (
                        self.received >= message["sent"]
                        and self.frames_received >= message.get("streamed", 0)
                    )
                )
            counts = {"sent": self.sent, "streamed": self.frames_sent}
            fields = {**counts, "phases_ms": {"freeze": 1.0}}
        else:
            fields = {}
        if fields is not None:
            self.say({"op": "reply", "id": message["id"], **fields})

    async def _wake(self, order: list[str]) -> None:
        number, generation, *fields = order
        self.orders.append(fields)
        self._news.set()
        if "wake" in self.replies:
            return
        self.generation = int(generation)
        self.received = self.sent = self.frames_received = self.frames_sent = 0
        self.mux = Mux.of_guest()
        await self.ask_time()
        body = wire.pack_fields([number, NONCE, *self.awake])
        self._control.write(wire.encode(wire.Kind.WAKE, self.generation, body))

    async def _serve_kernel(self) -> None:
        frames, messages = wire.FrameReader(), wire.Incoming()
        while data := await self._kernel_in.read(1 << 20):
            for frame in frames.feed(data):
                if frame.generation != self.generation:
                    continue
                if (parts := messages.take(frame)) is not None:
                    self.received += 1
                    self.inbox.put_nowait(parts)
            async with self._arrived:
                self._arrived.notify_all()
            await self.listening.wait()

    async def _serve_streams(self) -> None:
        frames = wire.FrameReader()
        while data := await self._streams_in.read(1 << 20):
            for frame in frames.feed(data):
                if frame.generation == self.generation:
                    self.frames_received += 1
                    event = self.mux.take(frame.body)
                    if event is not None:
                        self.streamed.put_nowait(event)
            async with self._arrived:
                self._arrived.notify_all()


@asynccontextmanager
async def fake_guest(
    control: socket.socket, kernel: socket.socket, streams: socket.socket
) -> AsyncGenerator[FakeGuest]:
    """A guest that serves its ends of the ports."""
    guest = FakeGuest()
    await guest.open(control, kernel, streams)
    try:
        yield guest
    finally:
        await guest.close()
