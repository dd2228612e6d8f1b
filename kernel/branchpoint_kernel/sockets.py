"""Jupyter's connection file and the five sockets it names, bound for the notebook's whole life."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import zmq
import zmq.asyncio

from branchpoint_kernel.messages import Channel

HEARTBEAT_POLL_MS = 100
# What a slow subscriber may lag behind before it loses messages. libzmq's 1000 is short for a
# loop of small displays, and a lost idle leaves a cell spinning.
LAG_MESSAGES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection file."""

    transport: str
    place: str
    ports: dict[str, int]
    key: bytes
    scheme: str

    @classmethod
    def load(cls, path: Path) -> "Connection":
        """Read a connection file."""
        raw: dict[str, Any] = json.loads(path.read_bytes())
        names = ("shell", "control", "stdin", "iopub", "hb")
        return cls(
            transport=str(raw.get("transport", "tcp")),
            place=str(raw["ip"]),
            ports={name: int(raw[f"{name}_port"]) for name in names},
            key=str(raw["key"]).encode(),
            scheme=str(raw.get("signature_scheme", "hmac-sha256")),
        )

    def address(self, name: str) -> str:
        """Where the socket of that name is bound."""
        separator = "-" if self.transport == "ipc" else ":"
        return f"{self.transport}://{self.place}{separator}{self.ports[name]}"


class FrontEnd:
    """The bound sockets. Sending never waits: what a client does not take is queued for it."""

    def __init__(self, context: zmq.asyncio.Context, connection: Connection) -> None:
        self.ports = {f"{name}_port": port for name, port in connection.ports.items()}
        self._sockets = {
            Channel.SHELL: context.socket(zmq.ROUTER),
            Channel.CONTROL: context.socket(zmq.ROUTER),
            Channel.STDIN: context.socket(zmq.ROUTER),
            Channel.IOPUB: context.socket(zmq.XPUB),
        }
        for channel, socket in self._sockets.items():
            socket.linger = 1000
            socket.sndhwm = LAG_MESSAGES if channel is Channel.IOPUB else 0
            socket.rcvhwm = 0
            if channel is Channel.IOPUB:
                # Otherwise only the first subscriber is noticed, and the second gets no welcome.
                socket.setsockopt(zmq.XPUB_VERBOSE, 1)
            else:
                # A client that reconnects under its old identity takes over from itself.
                socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
            socket.bind(connection.address(channel))

    async def receive(self, channel: Channel) -> list[bytes]:
        """The next message on a channel; on iopub, the next subscription."""
        return await self._sockets[channel].recv_multipart()

    def send(self, channel: Channel, identities: Sequence[bytes], frames: Sequence[bytes]) -> None:
        """Send frames to the client of those identities; on iopub they are the topic."""
        # The future is done unless the queue is full; pyzmq keeps the order either way.
        self._sockets[channel].send_multipart([*identities, *frames])  # pyright: ignore[reportUnknownMemberType]

    def close(self) -> None:
        """Let go of the addresses."""
        for socket in self._sockets.values():
            socket.close()


@contextmanager
def heartbeat(connection: Connection) -> Generator[None]:
    """Echo the heartbeat from a thread of its own, so that it beats whatever the loop does."""
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    socket.bind(connection.address("hb"))
    ending = Event()

    def beat() -> None:
        while not ending.is_set():
            if socket.poll(HEARTBEAT_POLL_MS):
                socket.send_multipart(socket.recv_multipart())

    thread = Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        socket.close()
        context.term()


@contextmanager
def front_end(connection: Connection) -> Generator[FrontEnd]:
    """Bind all five sockets; they are free again afterwards."""
    context = zmq.asyncio.Context()
    with heartbeat(connection):
        sockets = FrontEnd(context, connection)
        try:
            yield sockets
        finally:
            sockets.close()
            context.term()
