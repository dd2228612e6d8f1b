"""Watches sessions for whoever shows them: one watcher a session, as long as anybody does."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from branchpoint_nbext.views import RecordMarks, View, look, view_recorded
from branchpoint_vmruntime.borrowing import settle
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.figures import QUICK_S, SLOW_S, Pace
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, SessionId
from branchpoint_vmruntime.session_control import is_answered
from branchpoint_vmruntime.view_patches import patch_of

log = logging.getLogger(__name__)

POLL_S = 0.5
# An owner that is later than this with its answer is held up.
_LATE_S = 20.0
# A timer that is early by no more than this is on time.
_ABOUT_S = 0.1
# A fan-out changes dozens of things at once; nobody sees more than this.
_LEAST_BETWEEN_S = 0.05


class Watching:
    """The watchers of a server. `close` ends them all, and waits until they have ended."""

    def __init__(self, home: Callable[[], Home] = Home.default) -> None:
        self._home = home
        self._watchers: dict[SessionId, Watcher] = {}
        self.marks = RecordMarks()

    @asynccontextmanager
    async def following(
        self,
        session: SessionId,
        is_seen: Callable[[], bool] = lambda: True,
        *,
        by_patches: bool = False,
    ) -> AsyncGenerator["Following"]:
        """Follow a session that is on record, for a page that tells whether it `is_seen`.

        `by_patches` tells that it is enough for it to hear what is another in a view.
        """
        watcher = self._watchers.get(session)
        if watcher is None or watcher.ended:
            watcher = self._watchers[session] = Watcher(self._home(), session, self.marks)
        following = Following(watcher, is_seen, by_patches=by_patches)
        watcher.followers.add(following)
        try:
            yield following
        finally:
            watcher.followers.discard(following)
            if not watcher.followers:
                if self._watchers.get(session) is watcher:
                    del self._watchers[session]
                await watcher.end()

    async def close(self) -> None:
        """End every watcher."""
        watchers = list(self._watchers.values())
        self._watchers.clear()
        for watcher in watchers:
            await watcher.end()
        await self.marks.close()


class Watcher:
    """Has the newest of one session: of its owner while it has one, else of what is on record."""

    def __init__(self, home: Home, session: SessionId, marks: RecordMarks) -> None:
        self.followers: set[Following] = set()
        # Each thing told has a number, whichever of the two it is.
        self.number = self.view_number = 0
        self.view = self.figures = ""
        # What is another in the view than in that before, which had this number.
        self.patch, self.patch_of = "", 0
        self._last: View = {}
        self._home = home
        self._session = session
        self._marks = marks
        self._error: BranchpointError | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._watch(), name=f"branchpoint-watch-{session}")

    @property
    def ended(self) -> bool:
        """Whether it watches no longer."""
        return self._task.done()

    async def wait(self, seen: int) -> None:
        """Return once there is another than the one seen. BranchpointError if none will come."""
        while self.number == seen:
            if self._error is not None:
                raise self._error
            await self._changed.wait()

    async def end(self) -> None:
        """Stop watching."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        try:
            while True:
                # One that answers no more, or never could, is shown as it is on record.
                with contextlib.suppress(BranchpointError, KeyError, TypeError):
                    await self._follow_owner()
                await self._follow_record()
        except BranchpointError as error:
            self._fail(error)
        except Exception as error:
            # Whoever follows would wait for ever, and show what is no longer so.
            log.exception("session %s is watched no longer", self._session)
            self._fail(BranchpointError(f"it cannot be watched: {type(error).__name__}: {error}"))

    def _fail(self, error: BranchpointError) -> None:
        self._error = error
        self._tell()

    async def _follow_owner(self) -> None:
        async with ControlClient(self._home.control(self._session)) as owner:
            while True:
                view = await look(owner)
                self._show(view)
                await asyncio.sleep(_LEAST_BETWEEN_S)
                await self._follow_figures(owner, view["version"])

    async def _follow_figures(self, owner: ControlClient, seen: int) -> None:
        """Until something else has changed. Memory changes without a word, and a view is large."""
        pace, looked_at = Pace(), time.monotonic()
        while True:
            told = await owner.ask("watch", timeout_s=_LATE_S, seen=seen, for_s=QUICK_S)
            if told["version"] != seen:
                return
            wait_s = pace.wait_s if any(it.is_seen() for it in self.followers) else SLOW_S
            if time.monotonic() + _ABOUT_S < looked_at + wait_s:
                continue
            looked_at = time.monotonic()
            figures = (await owner.ask("figures", timeout_s=_LATE_S))["figures"]
            if pace.is_news(figures):
                self.figures = json.dumps({"figures": figures})
                self.number += 1
                self._tell()

    async def _follow_record(self) -> None:
        """Until somebody answers at the session's socket."""
        seen: object = None
        has_lent = False
        while True:
            mark = await self._marks.mark(self._home, self._session)
            if mark != seen:
                view = await view_recorded(self._home, self._session)
                has_lent = any(it["facts"]["state"] == BranchState.LENT for it in view["branches"])
                self._show(view)
                seen = mark
            if has_lent:
                # Nobody else takes back what was lent by a session that is closed.
                with contextlib.suppress(BranchpointError):
                    await asyncio.to_thread(settle, self._home)
            await asyncio.sleep(POLL_S)
            if await is_answered(self._home, self._session):
                return

    def _show(self, view: View) -> None:
        patch = patch_of(self._last, view)
        if patch:
            self._last, self.view = view, json.dumps({"view": view})
            self.patch, self.patch_of = json.dumps({"patch": patch}), self.view_number
            self.number += 1
            self.view_number = self.number
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Following:
    """One that follows a session. Whoever is slow hears of the newest only.

    `is_seen` tells whether somebody looks; whoever is not looked at hears of figures seldom.
    """

    def __init__(
        self, watcher: Watcher, is_seen: Callable[[], bool], *, by_patches: bool = False
    ) -> None:
        self.is_seen = is_seen
        self._watcher = watcher
        self._by_patches = by_patches
        self._seen = self._view_seen = 0
        self._figures_at = 0.0

    async def newest(self) -> str:
        """What is news to this one: the session as it is, `{"view": ...}`, if that has changed.

        Of a view that follows on the one told before, by patches: `{"patch": Patch}`. Else what has
        become of its figures since that view, `{"figures": {BRANCH: {...}}}`.
        """
        watcher = self._watcher
        while True:
            await watcher.wait(self._seen)
            if watcher.view_number > self._seen:
                follows = self._view_seen == watcher.patch_of > 0
                self._seen = self._view_seen = watcher.view_number
                return watcher.patch if self._by_patches and follows else watcher.view
            now = asyncio.get_running_loop().time()
            if self.is_seen() or now >= self._figures_at + SLOW_S:
                self._seen, self._figures_at = watcher.number, now
                return watcher.figures
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(QUICK_S):
                    await watcher.wait(watcher.number)
