"""WS branchpoint/live?session=ID: a session as it is, pushed as `{"view": LineageView}`.

At once and at each change; what moves by itself as `{"figures": ...}`, each second at the most.
With `&patches=1` a change is pushed as `{"patch": Patch}`, what is another than in the view before.
A page may say `{"seen": false}`, which has it told of figures less often.
"""

import asyncio
import contextlib
import json
from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from branchpoint_nbext.handling import RESOURCE, Asked, may
from branchpoint_nbext.refusing import RefusalError
from branchpoint_nbext.views import RecordMarks
from branchpoint_nbext.watching import Watching
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError
from branchpoint_vmruntime.lineage import SessionId

# More at once than the pages of a user can be expected to have open.
MAX_SOCKETS = 64
# Why a socket is closed: the server leaves; then, in the range that is an application's own, that
# the session is on record no longer, and that it cannot be shown.
LEAVING, GONE, FAILED = 1001, 4404, 4500
_LEAVES = "the Jupyter server is shutting down"
_MAX_REASON_BYTES = 120
_MAX_SAID = 100


class Live:
    """The sockets of a server that are open. `close` closes them, and ends the watching."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._tasks: dict[LiveHandler, asyncio.Task[None]] = {}
        # A server answers for as long as its kernels take to save, and its pages come back at once.
        self.closing = False

    @property
    def full(self) -> bool:
        """Whether no more are taken."""
        return len(self._tasks) >= MAX_SOCKETS

    @property
    def marks(self) -> RecordMarks:
        """What tells whether anything has changed on record; not any more while it is `closing`."""
        return self._watching.marks

    def add(self, socket: "LiveHandler", session: SessionId) -> None:
        """Push a session to a socket from now on."""
        if self.closing:
            socket.close(LEAVING, _LEAVES)
            return
        task = asyncio.create_task(self._push(socket, session), name=f"branchpoint-live-{session}")
        self._tasks[socket] = task
        task.add_done_callback(lambda _: self._tasks.pop(socket, None))

    def remove(self, socket: "LiveHandler") -> None:
        """Push nothing more to a socket."""
        if task := self._tasks.get(socket):
            task.cancel()

    async def close(self) -> None:
        """Close every socket; return once nothing is under way any more."""
        self.closing = True
        there = dict(self._tasks)
        for socket, task in there.items():
            socket.close(LEAVING, _LEAVES)
            task.cancel()
        await asyncio.gather(*there.values(), return_exceptions=True)
        await self._watching.close()

    async def _push(self, socket: "LiveHandler", session: SessionId) -> None:
        # What cannot be written any more has gone away; nothing is owed to it.
        with contextlib.suppress(WebSocketClosedError):
            try:
                async with self._watching.following(
                    session, lambda: socket.seen, by_patches=socket.by_patches
                ) as following:
                    while True:
                        # Until it is on its way: of what comes meanwhile, the newest is next.
                        await socket.write_message(await following.newest())
            except UnknownNameError as error:
                socket.close(GONE, _short(error))
            except BranchpointError as error:
                socket.close(FAILED, _short(error))


class LiveHandler(  # pyright: ignore[reportIncompatibleMethodOverride]
    Asked, WebSocketMixin, WebSocketHandler, JupyterHandler
):
    """One session, for one page."""

    auth_resource = RESOURCE
    # Whether somebody looks at the page, and whether it knows what to do with patches.
    seen = True
    by_patches = False

    def set_default_headers(self) -> None:
        """Those of pages make no sense for a websocket."""

    def get_compression_options(self) -> dict[str, Any] | None:
        """As the server is set up for its own websockets."""
        return self.settings.get("websocket_compression_options")

    @property
    def live(self) -> Live:
        """The server's sockets."""
        return self.settings[LIVE]

    @ws_authenticated
    @may("read")
    async def get(self) -> None:
        """Become a websocket, if the session is on record and there is room."""
        if self.live.closing:
            raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, _LEAVES, "start it again")
        self._session = await self.session_asked_for()
        self.by_patches = self.get_query_argument("patches", "") == "1"
        if self.live.full:
            raise RefusalError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{MAX_SOCKETS} pages are shown sessions already",
                "close some of them",
            )
        await super().get()

    def open(self, *_args: str, **_kwargs: str) -> None:
        """Begin to push."""
        super().open()  # pyright: ignore[reportUnknownMemberType]
        self.live.add(self, self._session)

    def on_message(self, message: str | bytes) -> None:
        """Whether the page is looked at; nothing else is awaited from one."""
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(message) if len(message) < _MAX_SAID else None:
                case {"seen": bool() as seen}:
                    self.seen = seen
                case _:
                    pass

    def on_close(self) -> None:
        """Whoever was shown the session has gone."""
        self.live.remove(self)


LIVE = "branchpoint_live"


def _short(error: BranchpointError) -> str:
    return str(error).encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
