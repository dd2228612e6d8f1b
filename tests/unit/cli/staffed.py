"""A session of the runtime's own, over made-up machines, that another thread has open."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fake_workshop import FakeWorkshop, office

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.control_ops import ControlOps, handlers_for
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ownership import BY_KERNEL, Ownership
from branchpoint_vmruntime.session import Session

ID = "s-1"
KEY = "notebook"


@dataclass
class Staff:
    """What serves the session, and what it is to have go wrong; the manifest it was told of."""

    workshop: FakeWorkshop = field(default_factory=FakeWorkshop)
    session: Session | None = None
    manifest: Path | None = None


@contextmanager
def staffed(home: Home, *, by_kernel: bool = False, fresh: bool = True) -> Generator[Staff]:
    """Have a session open, as a process of its own or as a notebook's kernel does.

    With `fresh` false it carries on as it was left.
    """
    serving, staff = threading.Event(), Staff()
    loop, ending = asyncio.new_event_loop(), asyncio.Event()
    alone = Ownership(kind=OwnerKind.OWNER, end=ending.set, ended=ending.is_set)
    owner = BY_KERNEL if by_kernel else alone

    async def own() -> None:
        async with office(home.root, staff.workshop, fresh=fresh) as it:
            session = it.session
            staff.session = session
            handlers = {
                **handlers_for(it.register.as_found_now, session.outside.forwards, owner),
                **ControlOps(session, owner).handlers(),
            }
            async with ControlServer(home.control(ID), handlers):
                serving.set()
                await ending.wait()

    def run() -> None:
        try:
            loop.run_until_complete(own())
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert serving.wait(timeout=120), "the owner did not begin to serve"
        yield staff
    finally:
        # It may have been asked to end, and have.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ending.set)
        thread.join()
