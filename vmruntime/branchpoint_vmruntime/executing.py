"""Commands in a machine, while they run: their input, what they write, how they end."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from branchpoint_guest import exec_frames as frames
from branchpoint_guest.exec_frames import ExecFrameError, ExecFrames, Order, Size
from branchpoint_vmruntime.errors import MachineError, StreamResetError, UsageError
from branchpoint_vmruntime.streams import StreamChannel

PURPOSE = "exec"
# What signals sent meanwhile wait for at most.
_PIECE_BYTES = 32 << 10
_READ_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """A terminal's, in characters."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """A command to run among the user's processes of a machine.

    Bytes that are no text are in `argv` as `os.fsdecode` gives them. `folder` is by default where
    a notebook begins; `environment` is added to the variables of a terminal in the notebook. With a
    `terminal` it has one, of that size, and all it writes is output.
    """

    argv: Sequence[str]
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    terminal: TerminalSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOutput:
    """Some bytes that a command wrote, to its standard error or else to its standard output."""

    data: bytes
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended: `status` as a shell has it, 128 and the signal if one ended it.

    Of one that could not be started it is 127 if there is none of that name and 126 otherwise, and
    `words` say why.
    """

    status: int
    words: str = ""


class Duplex(Protocol):
    """What frames of a command pass over: a stream to a machine, or a connection to its owner."""

    async def read(self, limit: int = _READ_BYTES, /) -> bytes:
        """Some bytes as they come, none at the end."""
        ...

    async def write(self, data: bytes, /) -> None:
        """Send; waits while there is no room."""
        ...


class RunningCommand:
    """A command that runs. Somebody must `read` all the while: it is there that input gets room.

    MachineError, as StreamResetError, once it is cut off from here.
    """

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._frames = ExecFrames()
        self._arrived: list[tuple[int, bytes]] = []
        self._sending = asyncio.Lock()
        self._room = frames.WINDOW
        self._has_room = asyncio.Event()
        self._is_over = False

    async def read(self) -> ExecOutput | ExecResult:
        """What it writes next; how it ended, once it has."""
        while True:
            while not self._arrived:
                self._arrived = self._cut(await self._next())
            kind, body = self._arrived.pop(0)
            if (news := self._take(kind, body)) is not None:
                return news

    async def write(self, data: bytes) -> None:
        """Give it input; waits while it does not read. What comes after its end goes nowhere."""
        rest = memoryview(data)
        while rest and not self._is_over:
            if not self._room:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            piece = bytes(rest[: min(self._room, _PIECE_BYTES)])
            self._room -= len(piece)
            rest = rest[len(piece) :]
            await self._send(frames.INPUT, piece)

    async def finish(self) -> None:
        """Its input ends; at a terminal that is as Control-D."""
        await self._send(frames.INPUT_END)

    async def resize(self, size: TerminalSize) -> None:
        """Its terminal has another size now; nothing happens if it has none."""
        await self._send(frames.RESIZE, frames.pack_size(_size(size)))

    async def signal(self, number: int) -> None:
        """Send a signal to its process group, or to who is in the foreground of its terminal."""
        await self._send(frames.SIGNAL, bytes([number]))

    async def _send(self, kind: int, body: bytes = b"") -> None:
        if not self._is_over:
            # A frame is not to begin within another.
            async with self._sending:
                await self._duplex.write(frames.frame(kind, body))

    async def _next(self) -> bytes:
        try:
            return await self._duplex.read(_READ_BYTES)
        except MachineError:
            self._end()
            raise

    def _cut(self, data: bytes) -> list[tuple[int, bytes]]:
        if not data:
            self._end()
            raise StreamResetError("the command was cut off from here before it had ended")
        try:
            return self._frames.feed(data)
        except ExecFrameError as error:
            raise self._nonsense(error) from error

    def _take(self, kind: int, body: bytes) -> ExecOutput | ExecResult | None:
        try:
            match kind:
                case frames.OUTPUT | frames.ERRORS:
                    return ExecOutput(data=body, is_error=kind == frames.ERRORS)
                case frames.TAKEN:
                    self._room = min(self._room + frames.unpack_count(body), frames.WINDOW)
                    self._has_room.set()
                    return None
                case frames.STATUS:
                    status, words = frames.unpack_status(body)
                    self._end()
                    status = 128 - status if status < 0 else status
                    return ExecResult(status=status & 0xFF, words=words)
                case frames.CUT:
                    self._end()
                    raise StreamResetError(body.decode(errors="replace"))
                case _:
                    raise self._nonsense(ExecFrameError(f"a frame of kind {kind}"))
        except ExecFrameError as error:
            raise self._nonsense(error) from error

    def _nonsense(self, error: ExecFrameError) -> MachineError:
        self._end()
        return StreamResetError(f"what the machine says of the command makes no sense: {error}")

    def _end(self) -> None:
        self._is_over = True
        self._has_room.set()


@asynccontextmanager
async def open_exec(
    channel: StreamChannel, spec: ExecSpec, *, timeout_s: float = 30.0
) -> AsyncGenerator[RunningCommand]:
    """Run a command in a machine; on leaving, it is cut off if it has not ended.

    One with a terminal is hung up then. Any other goes on, and what it writes goes nowhere.
    UsageError, GuestSilentError, GuestRefusedError, MachineEndedError.
    """
    order = packed(spec)
    stream = await channel.open(PURPOSE, timeout_s=timeout_s)
    try:
        await stream.write(frames.frame(frames.RUN, order))
        yield RunningCommand(stream)
    finally:
        await stream.close()


def packed(spec: ExecSpec) -> bytes:
    """As an order to the guest; UsageError if there can be none."""
    if not spec.argv:
        raise UsageError("there is no command to run", hint="name one, such as `ls`")
    if bad := [name for name in spec.environment if not name or "=" in name]:
        raise UsageError(f"{bad[0]!r} cannot be the name of a variable")
    try:
        order = frames.pack_order(
            Order(
                argv=[os.fsencode(it) for it in spec.argv],
                folder=os.fsencode(spec.folder),
                environment={os.fsencode(k): os.fsencode(v) for k, v in spec.environment.items()},
                size=None if spec.terminal is None else _size(spec.terminal),
            )
        )
    except ExecFrameError as error:
        raise UsageError(str(error)) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"that can be no argument in the machine: {error}") from error
    if len(order) > frames.MOST_ORDER_BYTES:
        raise UsageError(
            f"the command is longer than the {frames.MOST_ORDER_BYTES >> 20} MiB that Linux takes",
            hint="give what is long as a file or on standard input",
        )
    return order


def _size(size: TerminalSize) -> Size:
    return Size(size.rows, size.columns)
