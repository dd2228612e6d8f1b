"""The socket at which the owner of a session is asked for things by other processes of its user.

JSON lines, one request and one answer at a time: `{"v": 1, "op": ..., FIELD: ...}`, answered by
`{"v": 1, "ok": {...}}` or `{"v": 1, "error": {"message", "hint", "usage", "kind", ...}}`, see
`refusals`. What can be upgraded to is answered the same way, and then the connection is its own.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from branchpoint_vmruntime.errors import (
    BranchpointError,
    OwnerSilentError,
    SessionBusyError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.refusals import error_of, refusal_of

log = logging.getLogger(__name__)

VERSION = 1
MAX_LINE_BYTES = 1 << 20
# The checkpoints of a long session are thousands, at half a kilobyte each.
MAX_ANSWER_BYTES = 16 << 20
# More at once than a user's commands and panels can be expected to hold open.
MAX_PEERS = 64
_ASK_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 5.0
# Of the loop, from a connection that it has accepted to one that is closed again.
_TURNS_TO_TURN_AWAY = 5

Handler = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
# What carries a connection once it is upgraded, until whoever is at its other end has enough.
Carrier = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Upgrade = Callable[[Mapping[str, Any]], Awaitable[Carrier]]


class ControlServer:
    """Answers at a socket while it is entered. What may be asked for is what `handlers` names.

    `upgrades` are what takes a connection over: each is asked whether it will, and then carries it.
    Only processes of user `uid` are answered, by default this one's.
    """

    def __init__(
        self,
        path: Path,
        handlers: Mapping[str, Handler],
        *,
        upgrades: Mapping[str, Upgrade] | None = None,
        uid: int | None = None,
    ) -> None:
        self._path = path
        self._handlers = handlers
        self._upgrades = upgrades or {}
        self._uid = os.getuid() if uid is None else uid
        self._server: asyncio.Server | None = None
        self._leaving = False
        self._peers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Begin to listen.

        SessionBusyError if another process listens there, StorageError if the file cannot be made.
        """
        listening = _listen(self._path)
        try:
            self._server = await asyncio.start_unix_server(
                self._welcome, sock=listening, limit=MAX_LINE_BYTES
            )
        except BaseException:
            listening.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # It may have been left already.
        server, self._server = self._server, None
        if server is None:
            return
        # Not seen any more before it is closed: who finds it must find someone there.
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        # A server that is closed while it accepts a connection leaves that one open (CPython before
        # 3.13): none is accepted from here on, and those that were are turned away in some turns.
        self._leaving = True
        asyncio.get_running_loop().remove_reader(server.sockets[0].fileno())
        there = list(self._peers)
        for peer in there:
            peer.cancel()
        try:
            await asyncio.gather(*there, return_exceptions=True)
            for _ in range(_TURNS_TO_TURN_AWAY):
                await asyncio.sleep(0)
        finally:
            server.close()
        await server.wait_closed()

    async def answer(self, line: bytes) -> bytes:
        """The answer to a line, whatever it holds."""
        answer, _ = await self._answer(line)
        return answer

    async def _answer(self, line: bytes) -> tuple[bytes, Carrier | None]:
        try:
            request = _parsed(line)
            op = self._op(request)
            if op in self._upgrades:
                carrier = await self._upgrades[op](request)
                return _line({"ok": {}}), carrier
            return _line({"ok": await self._handlers[op](request)}, MAX_ANSWER_BYTES), None
        except BranchpointError as error:
            return _refusal(error), None
        except Exception as error:
            log.exception("a request at the control socket failed")
            return _refusal(BranchpointError(f"that failed: {type(error).__name__}: {error}")), None

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, uid = _peer(writer.get_extra_info("socket"))
        allowed = uid == self._uid
        if self._leaving or not allowed or len(self._peers) >= MAX_PEERS:
            writer.transport.abort()
            return
        peer = asyncio.create_task(self._serve(reader, writer), name="control")
        self._peers.add(peer)
        peer.add_done_callback(self._peers.discard)
        # One that is cancelled before its first step has closed nothing.
        peer.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # Whoever goes away in between has gone; what it asked for was done.
            with contextlib.suppress(ConnectionError):
                while line := await _next_line(reader, MAX_LINE_BYTES):
                    answer, carrier = await self._answer(line)
                    writer.write(answer)
                    await writer.drain()
                    if carrier is not None:
                        await carrier(reader, writer)
                        return
        except UsageError as error:
            writer.write(_refusal(error))
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _op(self, request: Mapping[str, Any]) -> str:
        version, op = request.get("v"), request.get("op")
        if version != VERSION:
            raise UsageError(
                f"its owner speaks version {VERSION} of the control socket, not {version!r}",
                hint="use the branchpoint that its owner runs, or open the session again",
            )
        known = [*self._handlers, *self._upgrades]
        if not isinstance(op, str) or op not in known:
            raise UsageError(
                f"this session cannot be asked for {op!r}; it can for: {', '.join(known)}",
                hint="open it again if branchpoint was updated since it was opened",
            )
        return op


class ControlClient:
    """A connection to the owner of a session, while it is entered; one question after another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asking = asyncio.Lock()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        """Connect. UsageError if nobody has the session open."""
        connection = _connected(self._path)
        if connection is None:
            raise UsageError(
                "nobody has that session open",
                hint="open its notebook, or carry it on without one: `branchpoint resume`",
            )
        self._reader, self._writer = await asyncio.open_unix_connection(
            sock=connection, limit=MAX_ANSWER_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def ask(
        self, op: str, *, timeout_s: float | None = _ASK_TIMEOUT_S, **fields: Any
    ) -> Mapping[str, Any]:
        """Ask for something and wait for it; what the owner refuses is raised in its words.

        An owner that ends is noticed at once, so an answer may be waited for without end: None.
        OwnerSilentError if it is still there after `timeout_s`; nothing can be asked any more then.
        """
        reader, writer = self._connection()
        request = _line({**fields, "op": op})
        async with self._asking:
            try:
                async with asyncio.timeout(timeout_s):
                    writer.write(request)
                    await writer.drain()
                    line = await _next_line(reader, MAX_ANSWER_BYTES)
            except ConnectionError:
                line = b""
            except TimeoutError as error:
                writer.close()
                raise OwnerSilentError(
                    f"the session's owner did not answer {op!r} within {timeout_s:g} s",
                    hint="it may be held up; look at its log",
                ) from error
            except asyncio.CancelledError:
                # The answer would be taken for the one to the next question.
                writer.close()
                raise
        if not line:
            raise BranchpointError(
                "the session's owner hung up before it answered",
                hint="it was closed or has ended; `branchpoint ls` shows what there is now",
            )
        return _granted(_parsed(line))

    async def upgrade(
        self, op: str, **fields: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Turn the connection into what `op` carries; nothing else can be asked for on it then."""
        await self.ask(op, timeout_s=None, **fields)
        return self._connection()

    @property
    def owner_pid(self) -> int:
        """The process at the other end; 0 if it cannot be seen from here."""
        _, writer = self._connection()
        return _peer(writer.get_extra_info("socket"))[0]

    def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            raise UsageError("the client is not entered; use `async with ControlClient(path)`")
        return self._reader, self._writer


def _granted(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    match answer:
        case {"ok": {} as granted}:
            return cast("Mapping[str, Any]", granted)
        case {"error": {"message": str()} as refused}:
            raise error_of(cast("Mapping[str, Any]", refused))
        case _:
            raise BranchpointError("the session's owner answered with what cannot be read")


def _parsed(line: bytes) -> Mapping[str, Any]:
    # Too deep a nesting is a RecursionError.
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError("what was sent is not JSON") from error
    if not isinstance(found, dict):
        raise UsageError("what was sent is not a JSON object")
    return cast("dict[str, Any]", found)


async def _next_line(reader: asyncio.StreamReader, limit: int) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:
        raise _too_long(limit) from error


def _line(fields: Mapping[str, Any], limit: int = MAX_LINE_BYTES) -> bytes:
    line = json.dumps({"v": VERSION, **fields}).encode() + b"\n"
    if len(line) > limit:
        raise _too_long(limit)
    return line


def _too_long(limit: int) -> UsageError:
    return UsageError(f"that is more than the {limit >> 20} MiB that fit into one message")


def _refusal(error: BranchpointError) -> bytes:
    return _line({"error": refusal_of(error)}, MAX_ANSWER_BYTES)


def _listen(path: Path) -> socket.socket:
    other = _connected(path)
    if other is not None:
        other.close()
        raise SessionBusyError(f"another process answers at {path}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The file gets its mode from the socket: it is never open to others, not for a moment.
        os.fchmod(listening.fileno(), 0o600)
        path.unlink(missing_ok=True)
        with _short(path) as name:
            listening.bind(name)
        listening.settimeout(0)
    except OSError as error:
        listening.close()
        raise StorageError(f"the socket {path} cannot be made: {error.strerror}") from error
    return listening


def _connected(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_TIMEOUT_S)
    try:
        with _short(path) as name:
            connection.connect(name)
        connection.settimeout(0)
    except (FileNotFoundError, ConnectionRefusedError):
        # Refused: the file outlived its owner.
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise StorageError(f"the socket {path} cannot be reached: {error}") from error
    return connection


@contextmanager
def _short(path: Path) -> Generator[str]:
    # An address holds 107 bytes, a path to a home may have more.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """The process at the other end, and its user."""
    fields = struct.Struct("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, fields.size)
    pid, uid, _ = fields.unpack(raw)
    return pid, uid
