"""Commands in the machines of a session that another process has open: both ends.

`{"op": "exec", "argv": [...], "branch", "folder", "environment": {...}, "rows", "columns"}`, all
but `argv` optional, upgrades a connection to the control socket; `exec_frames` has what passes
then.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Never, Protocol, cast

from branchpoint_guest import exec_frames as frames
from branchpoint_guest.exec_frames import ExecFrameError, ExecFrames
from branchpoint_vmruntime.budgeted_runs import RunBudget
from branchpoint_vmruntime.control_fields import optional_number, optional_text, texts
from branchpoint_vmruntime.control_socket import Carrier, ControlClient, Upgrade
from branchpoint_vmruntime.errors import BudgetError, MachineError, StreamResetError, UsageError
from branchpoint_vmruntime.executing import (
    PURPOSE,
    ExecSpec,
    RunningCommand,
    TerminalSize,
    packed,
)
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Turn
from branchpoint_vmruntime.streams import Stream, StreamChannel

_READ_BYTES = 64 << 10
_OPEN_TIMEOUT_S = 30.0
_PARTING_S = 10.0
_FROM_CLIENTS = (frames.INPUT, frames.INPUT_END, frames.RESIZE, frames.SIGNAL)
_FROM_MACHINES = (frames.OUTPUT, frames.ERRORS, frames.TAKEN, frames.STATUS)
_BECAME = {
    BranchState.PAUSED: "was paused, and the command is saved in it",
    BranchState.PARKED: "was parked, and the command is saved in it",
    BranchState.DROPPED: "was dropped, and the command with it",
}


class CommandBranch(Protocol):
    """What is used of a branch."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> BranchState: ...
    @property
    def streams(self) -> StreamChannel: ...


class CommandSession(Protocol):
    """What is used of a session."""

    turn: Turn

    @property
    def current(self) -> CommandBranch: ...
    def branch(self, name: str) -> CommandBranch: ...
    async def awake(self, name: str | None = None) -> CommandBranch: ...


def exec_upgrade(session: CommandSession, budget: RunBudget) -> Upgrade:
    """Runs commands in a session's machines for whoever asks at its control socket.

    One is cut off once the budget lets its branch run no more.
    """

    async def upgrade(request: Mapping[str, Any]) -> Carrier:
        order = packed(_spec(request))
        branch = await _awake(session, optional_text(request, "branch"), budget)
        channel = branch.streams
        stream = await channel.open(PURPOSE, timeout_s=_OPEN_TIMEOUT_S)

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await stream.write(frames.frame(frames.RUN, order))
                await _join(reader, writer, stream, budget.until_over(branch.name))
            except BudgetError as error:
                writer.write(_cut(str(error)))
            except asyncio.CancelledError:
                writer.write(_cut("the session was closed"))
                raise
            except MachineError as error:
                writer.write(_cut(_what_became(branch, channel, error)))
            except ExecFrameError as error:
                writer.write(_cut(f"what was sent makes no sense: {error}"))
            finally:
                await stream.close()
            await _see_off(reader)

        return carry

    return upgrade


async def _awake(session: CommandSession, name: str | None, budget: RunBudget) -> CommandBranch:
    branch = session.current if name is None else session.branch(name)
    budget.require(branch.name)
    if branch.state is BranchState.LIVE:
        # Not in turn: a command need not wait for what the session is doing.
        return branch
    async with session.turn():
        return await session.awake(branch.name)


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: Stream,
    until_over: Coroutine[Any, Any, Never],
) -> None:
    """Carry frames until the command has ended, the client has gone, or `until_over` raises."""
    both = [
        asyncio.create_task(_inward(reader, stream)),
        asyncio.create_task(_outward(stream, writer)),
        asyncio.create_task(until_over),
    ]
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    for task in done:
        task.result()


async def _inward(reader: asyncio.StreamReader, stream: Stream) -> None:
    arriving = ExecFrames()
    while data := await _read(reader):
        for kind, body in arriving.feed(data):
            if kind not in _FROM_CLIENTS:
                raise ExecFrameError(f"a frame of kind {kind} from a client")
            await stream.write(frames.frame(kind, body))


async def _outward(stream: Stream, writer: asyncio.StreamWriter) -> None:
    arriving = ExecFrames()
    while data := await stream.read(_READ_BYTES):
        for kind, body in arriving.feed(data):
            if kind not in _FROM_MACHINES:
                raise ExecFrameError(f"a frame of kind {kind} from a machine")
            writer.write(frames.frame(kind, body))
            if kind == frames.STATUS:
                return
        with contextlib.suppress(ConnectionError):
            # That nobody reads any more is seen by who reads from there.
            await writer.drain()
    raise StreamResetError("the machine says no more of the command")


async def _see_off(reader: asyncio.StreamReader) -> None:
    """Take what a client still sends: closed with that unread, it would lose the last words."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PARTING_S):
            while await _read(reader):
                pass


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_READ_BYTES)
    except ConnectionError:
        return b""


def _what_became(branch: CommandBranch, channel: StreamChannel, error: MachineError) -> str:
    """Why a command was cut off, as a person at a terminal understands it."""
    if branch.state in _BECAME:
        return f"branch {branch.name!r} {_BECAME[branch.state]}"
    if branch.state is BranchState.LIVE and branch.streams is not channel:
        return f"branch {branch.name!r} went back to a checkpoint while the command ran"
    return str(error)


def _cut(words: str) -> bytes:
    return frames.frame(frames.CUT, words.encode(errors="replace"))


def _spec(request: Mapping[str, Any]) -> ExecSpec:
    rows, columns = optional_number(request, "rows"), optional_number(request, "columns")
    terminal = None
    if rows is not None and columns is not None:
        terminal = TerminalSize(rows=rows, columns=columns)
    return ExecSpec(
        argv=texts(request, "argv"),
        folder=optional_text(request, "folder") or "",
        environment=_variables(request.get("environment", {})),
        terminal=terminal,
    )


def _variables(given: object) -> Mapping[str, str]:
    if isinstance(given, dict):
        pairs = cast("dict[object, object]", given)
        if all(isinstance(it, str) for pair in pairs.items() for it in pair):
            return cast("dict[str, str]", given)
    raise UsageError(f"environment has to be texts by their names, not {given!r}")


class _Connection:
    """A connection to a session's owner, as what frames pass over."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, limit: int = _READ_BYTES, /) -> bytes:
        try:
            return await self._reader.read(limit)
        except ConnectionError:
            return b""

    async def write(self, data: bytes, /) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise StreamResetError("whoever had the session open has gone") from error


@asynccontextmanager
async def exec_at(
    socket: Path, spec: ExecSpec, *, branch: str | None = None
) -> AsyncGenerator[RunningCommand]:
    """Run a command in a session that another process has open, by its control socket.

    In the current branch, if none is named; one that is paused is resumed first. Leaving is as with
    `open_exec`. UsageError if nobody has the session open, and what the owner refuses.
    """
    fields: dict[str, Any] = {
        "argv": list(spec.argv),
        "folder": spec.folder,
        "environment": dict(spec.environment),
        "branch": branch,
    }
    if spec.terminal is not None:
        fields |= {"rows": spec.terminal.rows, "columns": spec.terminal.columns}
    async with ControlClient(socket) as client:
        yield RunningCommand(_Connection(*await client.upgrade("exec", **fields)))
