"""The kernel's ZMQ sockets as a client sees them. No key, so no signatures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import zmq

DELIMITER = b"<IDS|MSG>"
HOST_IDENTITY = b"branchpoint-host"
GUESTD_IDENTITY = b"branchpoint-guestd"
COPIED_BYTES = 64 * 1024


class KernelSockets:
    """Shell, control, stdin and iopub for the host's messages, and a shell of guestd's own.

    Shell and stdin bear one identity: the kernel asks for input under that of who executed.
    """

    def __init__(self, connection_file: Path) -> None:
        connection: dict[str, Any] = json.loads(connection_file.read_bytes())
        if connection.get("key"):
            raise ValueError("the kernel's connection file must have an empty key")
        self._connection = connection
        self._context = zmq.Context()
        self.shell = self._connect(zmq.DEALER, "shell", HOST_IDENTITY)
        self.control = self._connect(zmq.DEALER, "control", HOST_IDENTITY)
        self.stdin = self._connect(zmq.DEALER, "stdin", HOST_IDENTITY)
        self.iopub = self._connect(zmq.SUB, "iopub", None)
        self.own_shell = self._connect(zmq.DEALER, "shell", GUESTD_IDENTITY)
        # In this order in each turn: a reply must not wait behind output.
        self.channels: dict[bytes, zmq.Socket[bytes]] = {
            b"control": self.control,
            b"shell": self.shell,
            b"stdin": self.stdin,
            b"iopub": self.iopub,
        }

    def _connect(self, kind: int, channel: str, identity: bytes | None) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.linger = 0
        # No limit: at its high-water mark a DEALER blocks and a SUB drops; a lost idle hangs.
        socket.sndhwm = 0
        socket.rcvhwm = 0
        # The kernel binds after we connect; the usual 100 ms between tries would add up.
        socket.reconnect_ivl = 10
        if identity is None:
            socket.subscribe(b"")
        else:
            socket.identity = identity
        transport, place = self._connection["transport"], self._connection["ip"]
        separator = "-" if transport == "ipc" else ":"
        socket.connect(f"{transport}://{place}{separator}{self._connection[f'{channel}_port']}")
        return socket

    def close(self) -> None:
        """Let go of the kernel."""
        self._context.destroy(linger=0)


def receive_nowait(socket: "zmq.Socket[bytes]", *, copy: bool = True) -> list[bytes] | None:
    """The next message as header, parent, metadata, content, buffers; None if there is none.

    Without `copy` large ones of these are views of what libzmq holds; that is slower for small
    ones.
    """
    try:
        if copy:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        else:
            frames = [_view(frame) for frame in socket.recv_multipart(zmq.NOBLOCK, copy=False)]
    except zmq.Again:
        return None
    return frames[frames.index(DELIMITER) + 2 :]


def _view(frame: zmq.Frame) -> bytes:
    # A read-only view has all that is used of bytes; its type would spread through every caller.
    return frame.bytes if len(frame) < COPIED_BYTES else cast("bytes", frame.buffer)


def send(socket: "zmq.Socket[bytes]", frames: Sequence[bytes]) -> None:
    """Send a message given as header, parent, metadata, content, buffers; unsigned."""
    socket.send_multipart([DELIMITER, b"", *frames])
