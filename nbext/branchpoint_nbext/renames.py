"""Has a notebook keep its session when the server calls it otherwise, or a folder that it is in.

A session is found by its notebook's path. The server tells of what it renames, whoever asked for
that; what is moved behind its back is `branchpoint rename`'s.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tornado.web import HTTPError

from branchpoint_nbext.kernels import open_session_of, process_of
from branchpoint_nbext.notebooks import named_for_all
from branchpoint_nbext.patience import is_ours
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.renaming import follow_path, rename_session, tell

_log = logging.getLogger(__name__)

RENAMED = "https://events.jupyter.org/jupyter_server/contents_service/v1"
# A kernel that was just started is found by the name its notebook had then.
_OPENS_WITHIN_S = 120.0
_LOOK_EVERY_S = 0.5


class Renames:
    """Listens to what is done with the files of a Jupyter server."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._opening: set[asyncio.Task[None]] = set()

    async def heard(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Something is called otherwise now, or something else was done."""
        del logger, schema_id
        if data.get("action") != "rename" or named_for_all():
            return
        old, new = (str(data.get(it, "")).strip("/") for it in ("source_path", "path"))
        try:
            await self._follow(old, new)
        except (BranchpointError, OSError) as error:
            _log.warning("%r, now %r, may have lost its session: %s", old, new, error)

    async def wait(self) -> None:
        """Return once no kernel is still to open a session whose notebook was renamed."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    async def close(self) -> None:
        """Wait for no kernel any more."""
        for task in self._opening:
            task.cancel()
        await self.wait()

    async def _follow(self, old: str, new: str) -> None:
        home = Home.default()
        before, after = self._place(old), self._place(new)
        renamed = await asyncio.to_thread(follow_path, home, before, after)
        for error in renamed.refused:
            _log.warning("%r, now %r, has lost its session: %s; %s", old, new, error, error.hint)
        moved = {it.key for it in renamed.sessions}
        for model in await self._running(old):
            rest = model["path"].strip("/")[len(old) :]
            was, now = as_key(before + rest), as_key(after + rest)
            if now in moved or not renamed.refused:
                await self._restart_as(model["id"], new + rest)
            if now not in moved:
                self._once_open(home, model["kernel"]["id"], was, now)
        await tell(home, renamed)

    def _place(self, path: str) -> str:
        """Where something is of which the server says `path`, whether it is there or not."""
        folder, _, name = path.rpartition("/")
        return str(Path(self._server.kernel_manager.cwd_for_path(folder), name).absolute())

    async def _running(self, old: str) -> Iterable[dict[str, Any]]:
        """The server's own sessions, with kernels of ours, of what was called that or is in it."""
        kernels = self._server.kernel_manager
        models = await self._server.session_manager.list_sessions()
        there = [it for it in models if f"{it['path'].strip('/')}/".startswith(f"{old}/")]
        return [it for it in there if is_ours(kernels.get_kernel(it["kernel"]["id"]))]

    async def _restart_as(self, session: str, path: str) -> None:
        """Have a kernel be told the new name when it is restarted, as JupyterLab has it as well."""
        name = path.rpartition("/")[2]
        # It may have been closed meanwhile.
        with suppress(HTTPError):
            await self._server.session_manager.update_session(session, path=path, name=name)

    def _once_open(self, home: Home, kernel: str, was: str, now: str) -> None:
        """Have the session that a kernel is still to open be found where its notebook is now."""
        task = asyncio.create_task(self._follow_opened(home, kernel, was, now))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _follow_opened(self, home: Home, kernel: str, was: str, now: str) -> None:
        try:
            async with asyncio.timeout(_OPENS_WITHIN_S):
                found = await self._opened(home, kernel)
            if found is not None and (found.key == was or found.key.startswith(f"{was} (")):
                key = now + found.key[len(was) :]
                await tell(home, await asyncio.to_thread(rename_session, home, found.id, key))
        except (TimeoutError, BranchpointError, OSError) as error:
            _log.warning("%r, now %r, may have lost its session: %s", was, now, error)

    async def _opened(self, home: Home, kernel: str) -> OpenSession | None:
        """The session that a kernel has open, once it has; None if it ends before."""
        kernels = self._server.kernel_manager
        while kernel in kernels and (pid := process_of(kernels.get_kernel(kernel))) is not None:
            found = await open_session_of(home, pid)
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_EVERY_S)
        return None
