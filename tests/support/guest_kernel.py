"""A stock ipykernel on this host behind the real guest relay, as a machine's kernel would be."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from branchpoint_guest.wire import MESSAGE, FrameReader, Incoming, encode, lane_of, pack_parts
from branchpoint_kernel.messages import Channel, message_from_parts
from branchpoint_vmruntime.errors import KernelDiedError, MachineEndedError

ROOT = Path(__file__).parents[2]
CONNECTION: dict[str, Any] = {
    "transport": "ipc",
    "shell_port": 1,
    "iopub_port": 2,
    "stdin_port": 3,
    "control_port": 4,
    "hb_port": 5,
    "key": "",
    "signature_scheme": "hmac-sha256",
}


def guest_environment(folder: Path) -> dict[str, str]:
    """What guestd would start the kernel with."""
    # ipykernel leaves the standard files alone under pytest; here they are what is tested.
    gone = ("JPY_PARENT_PID", "JPY_SESSION_NAME", "BRANCHPOINT_SESSION", "PYTEST_CURRENT_TEST")
    environment = {key: value for key, value in os.environ.items() if key not in gone}
    return environment | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("kernel", "vmruntime")),
        "BRANCHPOINT_HOOK_SOCKET": str(folder / "hook"),
        "IPYTHONDIR": str(folder / "ipython"),
        # Of its own: parso (0.8) fails on a file there that another kernel is writing.
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


class GuestKernel:
    """One ipykernel and one relay. Ends both at `close`.

    While `listening` is not set what the relay sends is not read. With `replies_last` a reply comes
    after the idle of its request, which nothing between two channels forbids.
    """

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="bp-"))
        connection = self.folder / "c.json"
        connection.write_text(json.dumps(CONNECTION | {"ip": str(self.folder / "k")}))
        environment = guest_environment(self.folder)
        # A proxy that is killed takes it along, as its machines end with it.
        launch = ["setpriv", "--pdeathsig", "KILL", "--"]
        launch += [sys.executable, "-P", "-m", "ipykernel_launcher", "-f", str(connection)]
        self.log = (self.folder / "log").open("wb")
        self.kernel = subprocess.Popen(
            [*launch, "--ext=branchpoint_guestkernel.hook"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        self.port, port = socket.socketpair()
        self.orders, orders = socket.socketpair()
        descriptors = (port.fileno(), orders.fileno())
        relay = [sys.executable, "-P", "-m", "branchpoint_guestkernel.relay"]
        self.relay = subprocess.Popen(
            [
                *relay,
                *("--port", str(descriptors[0]), "--control-fd", str(descriptors[1])),
                *("--connection", str(connection)),
            ],
            env=environment,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
        )
        port.close()
        orders.close()
        self.generation = 0
        self.sent = 0
        self.received = 0
        self.listening = asyncio.Event()
        self.listening.set()
        self.replies_last = False
        self._late: dict[str, list[bytes]] = {}
        self._idle: set[str] = set()

    async def open(self) -> None:
        """Connect to the relay and wait until it says that the kernel is ready."""
        self.reader, self.writer = await asyncio.open_connection(sock=self.port, limit=1 << 20)
        self.order_reader, self.order_writer = await asyncio.open_connection(sock=self.orders)
        self.frames = FrameReader()
        self.messages = Incoming()
        self.inbox: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
        self.pump = asyncio.create_task(self._pump())
        assert await self.answer() == ("ready", "")

    @property
    def alive(self) -> bool:
        """Whether both processes run."""
        return self.kernel.poll() is None and self.relay.poll() is None

    async def order(self, line: str) -> None:
        """Say something to the relay, as guestd."""
        self.order_writer.write(line.encode() + b"\n")
        await self.order_writer.drain()

    async def answer(self) -> tuple[str, str]:
        """What the relay says next: a word and the rest."""
        word, _, rest = (await self.order_reader.readline()).decode().strip().partition(" ")
        return word, rest

    async def send(self, parts: Sequence[bytes]) -> None:
        """A message to the kernel."""
        if self.relay.poll() is not None or self.pump.done():
            raise MachineEndedError("the machine has ended")
        self.sent += 1
        lane = lane_of(parts[0])
        self.writer.write(encode(MESSAGE, self.generation, pack_parts(parts), lane))
        await self.writer.drain()

    async def receive(self) -> list[bytes]:
        """The next message from the kernel."""
        parts = await self.inbox.get()
        if parts is None:
            self.inbox.put_nowait(None)
            if self.relay.poll() is not None:
                raise MachineEndedError("the machine has ended: its process was killed")
            raise KernelDiedError("the kernel in the machine has ended")
        return parts

    async def _pump(self) -> None:
        watch = asyncio.create_task(self._watch_kernel())
        with suppress(ConnectionError):
            while data := await self.reader.read(1 << 20):
                await self.listening.wait()
                for frame in self.frames.feed(data):
                    assert frame.generation == self.generation
                    if (parts := self.messages.take(frame)) is not None:
                        self.received += 1
                        self._deliver(parts)
        watch.cancel()
        with suppress(subprocess.TimeoutExpired):
            self.relay.wait(30)
        self.inbox.put_nowait(None)

    def _deliver(self, parts: list[bytes]) -> None:
        if not self.replies_last:
            self.inbox.put_nowait(parts)
            return
        message = message_from_parts(Channel(parts[0].decode()), parts[1:])
        if message.channel is Channel.SHELL and message.parent_id not in self._idle:
            self._late[message.parent_id] = parts
            return
        self.inbox.put_nowait(parts)
        is_idle = message.type == "status" and message.read()["execution_state"] == "idle"
        if is_idle:
            self._idle.add(message.parent_id)
        if is_idle and (late := self._late.pop(message.parent_id, None)) is not None:
            self.inbox.put_nowait(late)

    async def _watch_kernel(self) -> None:
        while self.kernel.poll() is None:  # noqa: ASYNC110 (a thread that waits would outlive the loop)
            await asyncio.sleep(0.05)
        self.inbox.put_nowait(None)

    def signal(self, number: int) -> None:
        """Signal the kernel's process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.kernel.pid, number)

    async def close(self) -> None:
        """End both processes and remove what they used."""
        self.signal(signal.SIGKILL)
        self.relay.kill()
        self.kernel.wait()
        self.relay.wait()
        self.log.close()
        self.order_writer.close()
        self.writer.close()
        await self.pump
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        self.folder.rmdir()
