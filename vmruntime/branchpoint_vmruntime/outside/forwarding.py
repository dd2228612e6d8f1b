"""Ports of a machine on the host's 127.0.0.1, for as long as its session is open."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from branchpoint_vmruntime.errors import (
    BranchpointError,
    GuestRefusedError,
    GuestSilentError,
    MachineError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.outside.piping import CHUNK_BYTES, cut, join, reset
from branchpoint_vmruntime.streams import Stream, StreamChannel

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
# Over all forwards of a session: a machine has other streams as well.
MAX_CONNECTIONS = 256
# Code in a machine may ask for forwards, each of which takes a descriptor of the host.
MAX_FORWARDS = 64
_MAX_PORT = 65535
_FIRST_FREE_FOR_ALL = 1024
_PROBE_S = 10.0
_GOODBYE_S = 1.0

ChannelOf = Callable[[str | None], StreamChannel]
Awake = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A forward as it is now. `branch` None: it follows the session's current branch.

    `connections` are those open now. `answered` tells whether something listened inside when that
    was last tried; it is taken for granted of a branch that is paused, until one is made.
    """

    port: int
    host_port: int
    branch: str | None
    connections: int
    answered: bool


async def nobody_sleeps(_branch: str) -> None:
    """Of branches that are never paused."""


def nobody_looks() -> None:
    """Of forwards that are shown to nobody."""


def nobody_is_paused(_branch: str) -> bool:
    """Of branches that are never paused."""
    return False


class Forwards:
    """The forwards of a session; enter it, and leave it to end them all.

    `channel_of` gives the streams of a branch's present machine, None meaning the current branch,
    or raises in words. `branch_of` names the current branch. `awake` gives a branch that is paused
    its machine again, for which a connection waits; `is_paused` tells whether it is. `on_change`
    hears when one is made or ends.
    """

    def __init__(
        self,
        channel_of: ChannelOf,
        branch_of: Callable[[], str],
        *,
        awake: Awake = nobody_sleeps,
        is_paused: Callable[[str], bool] = nobody_is_paused,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._channel_of = channel_of
        self._branch_of = branch_of
        self._awake = awake
        self._is_paused = is_paused
        self._max_connections = max_connections
        self.on_change: Callable[[], None] = nobody_looks
        self._listeners: dict[tuple[str | None, int], _Listener] = {}
        self._changing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with self._changing:
            await self._end(list(self._listeners))

    async def add(self, port: int, *, to: int | None = None, branch: str | None = None) -> Forward:
        """Forward a port of a branch, or of whichever is the current one.

        `to` is the port on the host; otherwise one that is free: a machine may ask for this, and is
        not to take the number under which something else is looked for on the host.

        UsageError if that cannot be; nothing listening inside is no error, see `Forward.answered`.
        A branch that is paused is left so: the first connection resumes it.
        """
        _check_port(port)
        if to is not None:
            _check_port(to)
        async with self._changing:
            self._require_room(port, branch)
            is_paused = self._is_paused(branch or self._branch_of())
            answered = is_paused or await _probe(self._channel_of(branch), port)
            listener = _Listener(port, branch, self._reach, self._has_room, answered=answered)
            await listener.listen(to)
            self._listeners[branch, port] = listener
            self.on_change()
            return listener.forward()

    async def remove(self, port: int, *, branch: str | None = None) -> Forward:
        """End a forward with its connections; UnknownNameError if there is none."""
        async with self._changing:
            listener = self._listeners.get((branch, port))
            if listener is None:
                raise self._unknown(port, branch)
            await self._end([(branch, port)])
            return listener.forward()

    def list(self) -> Sequence[Forward]:
        """Those there are, oldest first."""
        return [listener.forward() for listener in self._listeners.values()]

    async def dropped(self, branch: str) -> None:
        """A branch was given up: the forwards pinned to it end."""
        async with self._changing:
            await self._end([key for key in self._listeners if key[0] == branch])

    async def _reach(self, branch: str | None) -> StreamChannel:
        await self._awake(branch or self._branch_of())
        # Asked anew each time: after a rollback or a switch it is another machine.
        return self._channel_of(branch)

    def _has_room(self) -> bool:
        used = sum(len(listener.connections) for listener in self._listeners.values())
        return used < self._max_connections

    def _require_room(self, port: int, branch: str | None) -> None:
        there = self._listeners.get((branch, port))
        if there is None:
            if len(self._listeners) < MAX_FORWARDS:
                return
            raise UsageError(
                f"{MAX_FORWARDS} ports are forwarded already, which is the limit",
                hint="end one that is not needed: `%forward` lists them",
            )
        of = f"branch {branch!r}" if branch else f"the current branch, {self._branch_of()!r},"
        raise UsageError(
            f"port {port} of {of} is forwarded already: {ADDRESS}:{there.host_port}",
            hint=f"use that one, or end it first: `%forward {port}{_option(branch)} --stop`",
        )

    def _unknown(self, port: int, branch: str | None) -> UnknownNameError:
        known = tuple(f"{at}{_option(of)}" for of, at in self._listeners)
        return UnknownNameError(
            "forward of port", f"{port}{_option(branch)}", known, hint="`%forward` lists them"
        )

    async def _end(self, keys: Sequence[tuple[str | None, int]]) -> None:
        for key in keys:
            await self._listeners.pop(key).close()
            self.on_change()


class _Listener:
    """One port on the host, and the connections that came through it."""

    def __init__(
        self,
        port: int,
        branch: str | None,
        reach: Callable[[str | None], Awaitable[StreamChannel]],
        has_room: Callable[[], bool],
        *,
        answered: bool,
    ) -> None:
        self.connections: set[asyncio.Task[None]] = set()
        self.host_port = 0
        self._port = port
        self._branch = branch
        self._reach = reach
        self._has_room = has_room
        self._answered = answered
        self._server: asyncio.Server | None = None
        self._closed = False

    def forward(self) -> Forward:
        return Forward(
            port=self._port,
            host_port=self.host_port,
            branch=self._branch,
            connections=len(self.connections),
            answered=self._answered,
        )

    async def listen(self, to: int | None) -> None:
        try:
            self._server = await asyncio.start_server(
                self._welcome, ADDRESS, to or 0, limit=CHUNK_BYTES
            )
        except OSError as error:
            raise _no_port(to, error) from error
        self.host_port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
        open_now = list(self.connections)
        for connection in open_now:
            connection.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed or not self._has_room():
            reset(writer)
            return
        connection = asyncio.create_task(self._carry(reader, writer), name=f"port {self._port}")
        self.connections.add(connection)
        connection.add_done_callback(self.connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = await self._open()
            try:
                await join(reader, writer, stream)
            finally:
                await stream.close()
        except* (BranchpointError, OSError) as cut_off:
            log.debug("a connection to port %s ended early: %s", self._port, cut_off.exceptions)
        finally:
            await cut(writer)

    async def _open(self) -> Stream:
        channel = await self._reach(self._branch)
        try:
            stream = await channel.open("connect", str(self._port))
        except GuestRefusedError:
            self._answered = False
            raise
        self._answered = True
        return stream


async def _probe(channel: StreamChannel, port: int) -> bool:
    try:
        stream = await channel.open("connect", str(port), timeout_s=_PROBE_S)
    except (GuestRefusedError, GuestSilentError):
        return False
    try:
        # Cut off at once it would be an error for the program: this is a visitor who says nothing.
        async with asyncio.timeout(_GOODBYE_S):
            await stream.finish()
            while await stream.read():
                continue
    except (TimeoutError, MachineError):
        log.debug("whatever listens at port %s did not end a connection that ended", port)
    finally:
        await stream.close()
    return True


def _check_port(port: int) -> None:
    if not 1 <= port <= _MAX_PORT:
        raise UsageError(f"{port} is not a port", hint=f"ports are numbers from 1 to {_MAX_PORT}")


def _no_port(to: int | None, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        why = "is in use"
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = f"is not for this user: those below {_FIRST_FREE_FOR_ALL} are the host's own"
    else:
        why = f"cannot be used: {error.strerror or error}"
    return UsageError(
        f"{'no port' if to is None else f'port {to}'} of this host {why}",
        hint="leave --to away for one that is free, or name another",
    )


def _option(branch: str | None) -> str:
    return f" --branch {branch}" if branch else ""
