"""Calls: what this process asks of whoever drives the session, and waits for."""

import contextlib
import json
import os
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

from branchpoint.errors import BranchpointError, outside
from branchpoint.waking import stop_what_runs, wait_for_callbacks

ADDRESS = "/run/branchpoint/calls.sock"
ADDRESS_VARIABLE = "BRANCHPOINT_CALLS_SOCKET"
_READ_BYTES = 1 << 20
_LONGEST_ANSWER = 1 << 30

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer to a call: a MIME bundle to show, or None, and what the call gives."""

    data: dict[str, Any] | None = None
    value: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """Instead of an answer: the machine was woken from a checkpoint taken while the call waited."""

    reason: str
    branch: str
    index: int
    incarnation: str
    session: str


def ask_magic(name: str, line: str, *, body: str = "", by: str) -> Done | Woken:
    """Have a magic done: `line` is what follows its name, `body` the cell below it.

    `by` is "function", "magic" or "command". Raises as `ask` does.
    """
    return ask({"do": "magic", "name": name, "line": line, "body": body, "by": by})


def ask(request: Message) -> Done | Woken:
    """Make a call and wait, however long it takes. BranchpointError if it is refused or fails.

    An interrupt ends the waiting, and the host stops what it was doing for it.
    """
    _flush_output()
    with contextlib.closing(_connect()) as connection:
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = _read_line(connection)
        except OSError as error:
            raise BranchpointError(f"the call was cut off: {error}") from error
    return _understand(json.loads(line))


async def ask_in_loop(request: Message) -> Done | Woken:
    """The same for a coroutine, whose loop goes on meanwhile; cancelling it ends the waiting."""
    import asyncio  # noqa: PLC0415 (whoever calls this has it; others need not)

    _flush_output()
    connection = _connect()
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_LONGEST_ANSWER)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise BranchpointError(f"the call was cut off: {error}") from error
    finally:
        writer.close()
    answer = json.loads(_whole(line))
    if answer["status"] == "woken":
        await asyncio.to_thread(wait_for_callbacks)
    return _understand(answer)


def hold(request: Message) -> socket.socket:
    """Make a call that is not answered: it stands for as long as the connection is open."""
    connection = _connect()
    try:
        connection.sendall(json.dumps(request).encode() + b"\n")
    except OSError as error:
        connection.close()
        raise BranchpointError(f"the call was cut off: {error}") from error
    return connection


def _connect() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ.get(ADDRESS_VARIABLE, ADDRESS))
    except OSError:
        connection.close()
        raise outside() from None
    return connection


def _read_line(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    while not (pieces and pieces[-1].endswith(b"\n")):
        piece = connection.recv(_READ_BYTES)
        pieces.append(piece)
        if not piece:
            break
    return _whole(b"".join(pieces))


def _whole(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise BranchpointError("the call was cut off before it was answered")
    return line


def _understand(answer: Message) -> Done | Woken:
    match answer["status"]:
        case "ok":
            return Done(data=answer.get("data"), value=answer.get("value") or {})
        case "woken":
            # Where there is no hook, nobody has yet.
            stop_what_runs(answer["incarnation"])
            wait_for_callbacks()
            return Woken(**{name: answer[name] for name in Woken.__slots__})
        case _:
            raise BranchpointError(
                answer.get("evalue", ""),
                hint=answer.get("hint", ""),
                kind=answer.get("ename", ""),
            )


def _flush_output() -> None:
    """What was printed before a checkpoint is not to come out of it a second time."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
