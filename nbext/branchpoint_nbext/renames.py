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
        # By the kernel that is to open it: a session's key then, and that of where its notebook is.
        self._awaited: dict[str, tuple[str, str]] = {}
        # Each is heard in a task of its own, and the second begins where the first has ended.
        self._in_turn = asyncio.Lock()

    async def heard(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Something is called otherwise now, or something else was done."""
        del logger, schema_id
        if data.get("action") != "rename" or named_for_all():
            return
        old, new = (str(data.get(it, "")).strip("/") for it in ("source_path", "path"))
        try:
            async with self._in_turn:
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
        # Looked up first: the page tells the server of the new name as soon as it has it.
        running = await self._running(old)
        renamed = await asyncio.to_thread(follow_path, home, before, after)
        for error in renamed.refused:
            _log.warning("%r, now %r, has lost its session: %s; %s", old, new, error, error.hint)
        moved = {it.key for it in renamed.sessions}
        for model in running:
            rest = model["path"].strip("/")[len(old) :]
            was, now = as_key(before + rest), as_key(after + rest)
            if now in moved or not renamed.refused:
                await self._restart_as(model, new + rest)
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

    async def _restart_as(self, model: dict[str, Any], path: str) -> None:
        """Have a kernel be told the new name when it is restarted, and start where that is."""
        folder, _, name = path.rpartition("/")
        # It may have been closed meanwhile.
        with suppress(HTTPError):
            await self._server.session_manager.update_session(model["id"], path=path, name=name)
            kernels = self._server.kernel_manager
            launch = getattr(kernels.get_kernel(model["kernel"]["id"]), "_launch_args", None)
            # jupyter_client 8.10 changes the environment of a restart when it is asked to, and
            # leaves the folder: one that is not there any more ends the kernel for good.
            if isinstance(launch, dict) and "cwd" in launch:
                launch["cwd"] = kernels.cwd_for_path(folder)

    def _once_open(self, home: Home, kernel: str, was: str, now: str) -> None:
        """Have the session that a kernel is still to open be found where its notebook is now."""
        if kernel in self._awaited:
            # Renamed once more meanwhile: it opens under the name it was started with.
            self._awaited[kernel] = self._awaited[kernel][0], now
            return
        self._awaited[kernel] = was, now
        task = asyncio.create_task(self._follow_opened(home, kernel))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _follow_opened(self, home: Home, kernel: str) -> None:
        try:
            async with asyncio.timeout(_OPENS_WITHIN_S):
                found = await self._opened(home, kernel)
            async with self._in_turn:
                was, now = self._awaited[kernel]
                if found is not None and (found.key == was or found.key.startswith(f"{was} (")):
                    key = now + found.key[len(was) :]
                    await tell(home, await asyncio.to_thread(rename_session, home, found.id, key))
        except (TimeoutError, BranchpointError, OSError) as error:
            _log.warning("%r, now %r, may have lost its session: %s", *self._awaited[kernel], error)
        finally:
            del self._awaited[kernel]

    async def _opened(self, home: Home, kernel: str) -> OpenSession | None:
        """The session that a kernel has open, once it has; None if it ends before."""
        kernels = self._server.kernel_manager
        while kernel in kernels and (pid := process_of(kernels.get_kernel(kernel))) is not None:
            found = await open_session_of(home, pid)
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_EVERY_S)
        return None
