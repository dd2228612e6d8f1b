"""A session that is served at a real control socket, with made-up machines."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fake_workshop import FakeWorkshop, Office, office

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.control_ops import ControlOps, handlers_for
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.ownership import Ownership
from branchpoint_vmruntime.results import RunResult
from branchpoint_vmruntime.session_control import SessionControl


@dataclass(frozen=True)
class Served:
    """A session that is served, and where."""

    office: Office
    workshop: FakeWorkshop
    socket: Path
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def session(self) -> OwnedSession:
        """What is served."""
        return self.office.session


@asynccontextmanager
async def served(folder: Path, owner: Ownership | None = None) -> AsyncGenerator[Served]:
    workshop, ended = FakeWorkshop(), asyncio.Event()
    owned = owner or Ownership(kind=OwnerKind.OWNER, end=ended.set, ended=ended.is_set)
    async with office(folder, workshop) as it:
        handlers = {
            **handlers_for(it.register.as_found_now, it.session.outside.forwards, owned),
            **ControlOps(it.session, owned).handlers(),
        }
        socket = folder / "s-1.sock"
        async with ControlServer(socket, handlers):
            yield Served(it, workshop, socket, ended)


@asynccontextmanager
async def asked(
    folder: Path, owner: Ownership | None = None
) -> AsyncGenerator[tuple[Served, SessionControl]]:
    async with served(folder, owner) as there, SessionControl(there.socket) as control:
        yield there, control


@dataclass
class HeldRuns:
    """Code that runs until it is let go."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, branch: OwnedBranch, code: str, *, timeout_s: float) -> RunResult:
        """Stands in for `OwnedBranch.run`."""
        self.began.set()
        await self.go.wait()
        return RunResult(status="ok", text=f"{branch.name}: {code}", elapsed_ms=1.0)
