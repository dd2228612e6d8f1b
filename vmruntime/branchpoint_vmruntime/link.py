"""The two links to a guest: control (asked and answered) and kernel (whole messages, both ways)."""

import asyncio
import itertools
import json
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from branchpoint_guest import wire
from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    MachineError,
)
from branchpoint_vmruntime.link_bounds import (
    MOST_MESSAGE_BYTES,
    Bounds,
    require_few_marks,
    weight,
)

QUEUE_LIMIT_BYTES = 64 << 20
CHUNK_BYTES = 256 << 10
# What may wait on one lane for the guest to read before its senders wait themselves.
WAITING_LIMIT_BYTES = 64 << 10
# What taking apart bytes that are not what the wire says can raise.
_GARBAGE = (ValueError, LookupError, TypeError, RecursionError)


class ControlLink(asyncio.Protocol):
    """Questions to guestd and its answers, matched by id; its events go to the handler given.

    It answers the guest's question for the time itself, as soon as it arrives: the guest takes half
    the round trip as the error of its clock.
    """

    def __init__(self, on_event: Callable[[dict[str, Any]], None], console: Path) -> None:
        self.generation = 0
        # Called if the guest breaks the conversation off by what it sends.
        self.on_broken: Callable[[MachineError], None] = self.fail
        self._on_event = on_event
        self._console = console
        self._reader = wire.FrameReader(MOST_MESSAGE_BYTES)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._free = asyncio.Event()
        self._free.set()
        self._held: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._end: MachineError | None = None

    @classmethod
    async def open(
        cls, sock: socket.socket, on_event: Callable[[dict[str, Any]], None], console: Path
    ) -> "ControlLink":
        """Speak over our end of the pair; takes the socket over."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(on_event, console), sock=sock)
        return link

    async def ask(
        self,
        op: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout_s: float,
        at_rest: bool = False,
    ) -> dict[str, Any]:
        """Ask and wait for the answer. GuestSilentError, GuestRefusedError, MachineEndedError.

        Between `hold` and `release` only what is asked `at_rest` gets through; all else waits.
        """

        def send(number: int) -> None:
            message = json.dumps({**(fields or {}), "op": op, "id": number})
            self._write(wire.Kind.CONTROL, message.encode())

        reply = await self._await_reply(op, send, timeout_s, at_rest=at_rest)
        if isinstance(reply.get("error"), str):
            raise GuestRefusedError(reply["error"])
        return reply

    async def ask_to_wake(self, fields: Sequence[str], *, timeout_s: float) -> list[str]:
        """Give the order to wake; the fields of the answer. Fails as `ask` does."""

        def send(number: int) -> None:
            self._write(wire.Kind.WAKE, wire.pack_fields([str(number), *fields]))

        reply = await self._await_reply("wake", send, timeout_s, at_rest=True)
        return list(reply["fields"])

    def tell(self, op: str, fields: Mapping[str, Any]) -> None:
        """Say what needs no answer; once the machine is gone, to nobody."""
        body = json.dumps({**fields, "op": op, "id": next(self._ids)}).encode()
        if self._free.is_set():
            self._write(wire.Kind.CONTROL, body)
        else:
            self._held.append(body)

    @property
    def is_asked(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self._waiting)

    def hold(self) -> None:
        """Let nothing more out: a byte under way while a machine is saved would be torn."""
        self._free.clear()

    def release(self) -> None:
        """Let through what was held up, and all that comes."""
        self._free.set()
        held, self._held = self._held, []
        for body in held:
            self._write(wire.Kind.CONTROL, body)

    async def _await_reply(
        self, op: str, send: Callable[[int], None], timeout_s: float, *, at_rest: bool
    ) -> dict[str, Any]:
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                if not at_rest:
                    await self._free.wait()
                if self._end is not None:
                    raise self._end
                self._waiting[number] = answer
                send(number)
                return await answer
        except TimeoutError as error:
            raise GuestSilentError(op, timeout_s, self._console) from error
        finally:
            self._waiting.pop(number, None)

    def fail(self, error: MachineError) -> None:
        """Give everyone who waits, and whoever asks from now on, this error."""
        self._end = self._end or error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._end)
        self._held.clear()
        self._free.set()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            for frame in self._reader.feed(data):
                if frame.generation == self.generation:
                    self._take(frame)
        except _GARBAGE as error:
            self.fail(_out_of_step(error))
            self.on_broken(_out_of_step(error))

    def _take(self, frame: wire.Frame) -> None:
        match frame.kind:
            case wire.Kind.CLOCK:
                self._write(wire.Kind.CLOCK, wire.pack_time(time.time()))
            case wire.Kind.WAKE:
                number, *fields = wire.unpack_fields(frame.body)
                self._settle(int(number), {"fields": fields})
            case _:
                require_few_marks(frame.body)
                message = wire.decode_control(frame)
                if message.get("op") == "reply":
                    self._settle(message["id"], message)
                else:
                    self._on_event(message)

    def _settle(self, number: int, reply: dict[str, Any]) -> None:
        answer = self._waiting.get(number)
        if answer is not None and not answer.done():
            answer.set_result(_Reply(reply))

    def _write(self, kind: wire.Kind, body: bytes) -> None:
        if self._transport is not None and self._end is None:
            self._transport.write(wire.encode(kind, self.generation, body))


class _Reply(dict[str, Any]):
    """An answer of the guest's, which need not have in it what it should."""

    def __missing__(self, name: str) -> object:
        raise GuestRefusedError(f"the machine's answer has no {name!r}")


class KernelLink(asyncio.Protocol):
    """Messages to and from the kernel of one incarnation. Implements `session.KernelChannel`.

    They travel in chunks, and an urgent one goes between the chunks of others, both ways.
    """

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        # Called if the guest breaks the conversation off by what it sends.
        self.on_broken: Callable[[MachineError], None] = self.fail
        self._generation = 0
        self.sent = 0
        self.received = 0
        self._reader = wire.FrameReader(MOST_MESSAGE_BYTES)
        self._incoming = wire.Incoming()
        self._outgoing = wire.Outgoing(CHUNK_BYTES)
        self._queues: tuple[deque[list[bytes]], ...] = tuple(deque() for _ in wire.LANES)
        self._queued_bytes = 0
        self._bounds = Bounds()
        self._draining = 0
        self._arrived = asyncio.Event()
        self._gate = asyncio.Event()
        self._room = tuple(asyncio.Event() for _ in wire.LANES)
        self._writable = True
        self._transport: asyncio.Transport | None = None
        self._end: MachineError | None = None
        self._note_room()

    @classmethod
    async def open(cls, sock: socket.socket, incarnation: str) -> "KernelLink":
        """Speak over our end of the pair.

        Takes the socket over. Closed to senders until `resume`.
        """
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(incarnation), sock=sock)
        return link

    @property
    def generation(self) -> int:
        """The number of this waking, on every frame. A new one counts messages from zero."""
        return self._generation

    @generation.setter
    def generation(self, number: int) -> None:
        self._generation = number
        self.sent = 0
        self.received = 0
        self._incoming = wire.Incoming()
        self._bounds = Bounds()

    async def send(self, parts: Sequence[bytes]) -> None:
        """Queue a message for the kernel; waits while the machine is at rest or slow to read."""
        room = self._room[wire.lane_of(parts[0])]
        # Both at once: the gate may have closed while there was no room.
        while self._end is None and not (self._gate.is_set() and room.is_set()):
            await self._gate.wait()
            await room.wait()
        if self._end is not None or self._transport is None:
            raise self._end or MachineEndedError("the link is closed")
        self.sent += 1
        self._outgoing.put(parts)
        self._write()

    async def receive(self) -> list[bytes]:
        """The next message, the most urgent first, else in order.

        Once all have been taken, the error that says why there are no more.
        """
        while not any(self._queues):
            if self._end is not None:
                raise self._end
            self._arrived.clear()
            await self._arrived.wait()
        parts = next(queue for queue in self._queues if queue).popleft()
        self._queued_bytes -= weight(parts)
        self._regulate()
        return parts

    def quiesce(self) -> int:
        """Let no more in; the number sent in this incarnation, for the guest to wait for.

        What waits here already is still written: the guest cannot come to rest before.
        """
        self._gate.clear()
        return self.sent

    async def wait_received(self, count: int) -> None:
        """Wait until that many messages of this incarnation have arrived here.

        Takes them in even if the queue is full: at rest the guest has no more than is under way.
        """
        self._draining += 1
        self._regulate()
        try:
            while self.received < count:
                if self._end is not None:
                    raise self._end
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._draining -= 1
            self._regulate()

    def open_gate(self) -> None:
        """Let senders through."""
        self._gate.set()

    def resume(self) -> None:
        """Let senders through again, counting on: the relay in the guest does the same."""
        self.open_gate()

    def fail(self, error: MachineError) -> None:
        """Nothing more will come, for this reason."""
        self._end = self._end or error
        self._outgoing.clear()
        self._note_room()
        self._arrived.set()
        self._gate.set()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        # So that what is urgent has no more than about a chunk before it.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            self._take(data)
        except _GARBAGE as error:
            self.fail(_out_of_step(error))
            self.on_broken(_out_of_step(error))
        self._arrived.set()
        self._regulate()

    def _take(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.generation != self.generation:
                continue
            self._bounds.require(frame)
            parts = self._incoming.take(frame)
            if parts is None:
                continue
            self.received += 1
            self._queues[frame.lane].append(parts)
            self._queued_bytes += weight(parts)

    def _regulate(self) -> None:
        """Read on while there is room for what comes; the guest waits otherwise."""
        if self._transport is None:
            return
        if self._queued_bytes < QUEUE_LIMIT_BYTES or self._draining:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Called by asyncio, from within a write that did not go through at once."""
        self._writable = False

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._writable = True
        self._write()

    def _write(self) -> None:
        while self._writable and self._transport is not None:
            following = self._outgoing.next_frame(self.generation)
            if following is None:
                break
            self._transport.write(following[0])
        self._note_room()

    def _note_room(self) -> None:
        for waiting, room in zip(self._outgoing.waiting_bytes, self._room, strict=True):
            if waiting < WAITING_LIMIT_BYTES:
                room.set()
            else:
                room.clear()


def _out_of_step(error: Exception) -> MachineError:
    return MachineError(f"what the machine sent could not be understood: {error}")
