"""What the owner of a session can be asked for at its control socket: both ends of each question.

The socket is there for as long as the session is open, `home.control(session)`.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from branchpoint_vmruntime.control_socket import ControlClient, Handler
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.outside.forwarding import Forward, Forwards

_SIGN_OF_LIFE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session that somebody has open, and the process that does."""

    id: str
    key: str
    pid: int


def handlers_for(record: SessionRecord, forwards: Forwards) -> Mapping[str, Handler]:
    """What the owner of a session answers, by the name of the operation."""

    async def session(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        return asdict(OpenSession(id=record.id, key=record.key, pid=os.getpid()))

    async def forward(request: Mapping[str, Any]) -> Mapping[str, Any]:
        port, to = _number(request, "port"), _optional_number(request, "to")
        return asdict(await forwards.add(port, to=to, branch=_optional_text(request, "branch")))

    async def unforward(request: Mapping[str, Any]) -> Mapping[str, Any]:
        port, branch = _number(request, "port"), _optional_text(request, "branch")
        return asdict(await forwards.remove(port, branch=branch))

    async def listed(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"forwards": [asdict(forward) for forward in forwards.list()]}

    return {"session": session, "forward": forward, "unforward": unforward, "forwards": listed}


class SessionControl:
    """Asks the owner of a session; enter it to connect. UsageError if nobody has it open."""

    def __init__(self, socket: Path) -> None:
        self._client = ControlClient(socket)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def session(self) -> OpenSession:
        """Which session it is, and who has it open."""
        answer = await self._client.ask("session", timeout_s=_SIGN_OF_LIFE_S)
        return OpenSession(**answer)

    async def forward(
        self, port: int, *, to: int | None = None, branch: str | None = None
    ) -> Forward:
        """As `Forwards.add`."""
        return Forward(**await self._client.ask("forward", port=port, to=to, branch=branch))

    async def unforward(self, port: int, *, branch: str | None = None) -> Forward:
        """As `Forwards.remove`."""
        return Forward(**await self._client.ask("unforward", port=port, branch=branch))

    async def forwards(self) -> Sequence[Forward]:
        """As `Forwards.list`."""
        answer = await self._client.ask("forwards")
        return [Forward(**fields) for fields in answer["forwards"]]


async def open_sessions(home: Home) -> list[OpenSession]:
    """The sessions of a home that somebody has open, by their keys."""
    found: list[OpenSession] = []
    for socket in home.run.glob("*.sock"):
        # Left behind by an owner that was killed, or by one that is just leaving.
        try:
            async with SessionControl(socket) as control:
                found.append(await control.session())
        except BranchpointError:
            continue
    return sorted(found, key=lambda session: session.key)


def _number(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} has to be a number, not {value!r}")
    return value


def _optional_number(request: Mapping[str, Any], name: str) -> int | None:
    return None if request.get(name) is None else _number(request, name)


def _optional_text(request: Mapping[str, Any], name: str) -> str | None:
    value = request.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} has to be a text, not {value!r}")
    return value
