"""GET branchpoint/session-of?kernel=ID and ?path=NOTEBOOK: which session a notebook has."""

import asyncio
import contextlib
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tornado.web import authenticated

from branchpoint_nbext.handling import BranchpointHandler, may
from branchpoint_nbext.notebooks import Notebooks, newest_of
from branchpoint_nbext.refusing import RefusalError, in_words
from branchpoint_nbext.views import read
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import holder
from branchpoint_vmruntime.session_control import session_if_open


class SessionOfHandler(BranchpointHandler):
    """The session of a kernel that runs, or of a notebook without one."""

    @authenticated
    @may("read")
    async def get(self) -> None:
        """Answer with `{"session": ID}`, null where there is none yet: pages ask as they open."""
        kernel = self.get_query_argument("kernel", None)
        path = self.get_query_argument("path", None, strip=False)
        with in_words():
            match kernel, path:
                case str(), None:
                    session = await self._of_kernel(kernel)
                case None, str():
                    session = await self._of_notebook(path)
                case _:
                    raise UsageError("either a kernel or a path has to be given")
        self.answer({"session": session})

    async def _of_kernel(self, kernel: str) -> str | None:
        kernels: Any = self.kernel_manager
        if kernel not in kernels:
            raise RefusalError(HTTPStatus.NOT_FOUND, f"this server has no kernel {kernel!r}")
        pid = process_of(kernels.get_kernel(kernel))
        found = None if pid is None else await open_session_of(self.home, pid)
        return None if found is None else found.id

    async def _of_notebook(self, path: str) -> str | None:
        notebooks = Notebooks.of(self)
        key = notebooks.key_of(await notebooks.checked(path))

        def found(journal: Journal) -> SessionRecord | None:
            newest = {id_: at for id_, (_, at) in journal.tallies().items()}
            return newest_of(key, journal.sessions(), newest)

        session = await read(self.home, found) if self.home.database.exists() else None
        return None if session is None else session.id


def process_of(manager: object) -> int | None:
    """The process of a kernel; None where another computer has it, or nothing is known of it."""
    pid = getattr(getattr(manager, "provisioner", None), "pid", None)
    return pid if isinstance(pid, int) else None


async def open_session_of(home: Home, pid: int) -> OpenSession | None:
    """The session that a process has open. Nobody else's is asked for anything."""
    for session in await asyncio.to_thread(_held_by, home, pid):
        # What is only tidied up is held as well, for a moment.
        found = await session_if_open(home, session)
        if found is not None and found.pid == pid:
            return found
    return None


def _held_by(home: Home, pid: int) -> list[str]:
    """The sessions whose folders a process holds."""
    held: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                held.add(fd.readlink().name)
    # A name tells where to look, no more: the lock is what counts.
    return [it for it in held if it and holder(home.layers / it) == pid]
