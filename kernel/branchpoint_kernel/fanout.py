"""Runs one cell in several branches at once and shows what each gave."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from branchpoint_kernel.awakening import Awakening
from branchpoint_kernel.bundles import Bundle, plain, resumption
from branchpoint_kernel.columns import Column, as_data
from branchpoint_kernel.commands import RunIn
from branchpoint_kernel.conversations import Progress
from branchpoint_kernel.messages import Channel, Message, Request, Stamp
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.records import RECORD_TYPE, Fact, record
from branchpoint_kernel.redrawing import Redrawing
from branchpoint_kernel.rendering import Line, note, open_as
from branchpoint_kernel.stoppable import Stoppable
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session

# Live, or so as soon as something is wanted of it.
_WITHIN_REACH = (BranchState.LIVE, BranchState.PAUSED)


class Collecting:
    """A cell in one branch: its outputs go into a column. Interrupts reach it while `executes`."""

    holds_queue = False

    def __init__(
        self,
        column: Column,
        pass_on: Callable[[Message], None],
        on_output: Callable[[Message], None] = lambda message: None,
    ) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.executes = True
        self._column = column
        self._pass_on = pass_on
        self._on_output = on_output
        self._progress = Progress()
        self._started_s = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether it has run to its end."""
        return self._progress.idle and self._progress.replied

    @property
    def occupies(self) -> bool:
        """Until the end."""
        return not self.over

    def take(self, message: Message) -> None:
        """Keep outputs; comms are the front end's."""
        self._progress.note(message)
        if message.type.startswith("comm_"):
            self._pass_on(message)
        elif message.channel is Channel.IOPUB:
            self._column.add(message.type, message.read())
            self._on_output(message)
        elif message.type == "execute_reply":
            reply = message.read()
            self._column.status = "ok" if reply["status"] == "ok" else "error"
            if reply["status"] == "error":
                self._column.failure = f"{reply.get('ename')}: {reply.get('evalue')}"
            elif reply["status"] == "aborted":
                self._column.failure = "aborted"
        if self.over and not self.done.done():
            self._finish()

    def fail(self, error: BranchpointError) -> None:
        """The branch's machine is gone."""
        self._column.fail(error)
        self._finish()

    def _finish(self) -> None:
        self._column.elapsed_ms = round((time.monotonic() - self._started_s) * 1000, 1)
        if not self.done.done():
            self.done.set_result(None)


class Fanout:
    """`%%branch`."""

    def __init__(
        self,
        session: Session,
        pumps: Pumps,
        publisher: Publisher,
        stamp: Stamp,
        awakening: Awakening,
    ) -> None:
        self._session = session
        self._pumps = pumps
        self._awakening = awakening
        self._publisher = publisher
        self._stamp = stamp
        self._wanted: frozenset[str] = frozenset()
        self._waits: set[Stoppable] = set()

    def wants(self, branch: str) -> bool:
        """Whether a cell is to run in that branch, or runs there: it is not to be paused."""
        return branch in self._wanted

    def stop(self) -> bool:
        """Wait no longer for branches that are at another cell; whether any was waited for."""
        stopped = [wait.stop() for wait in self._waits]
        return any(stopped)

    async def run(self, request: Request, command: RunIn) -> dict[str, Any]:
        """Run the cell, show the outputs; the reply, an error if it failed in any branch."""
        branches = self._chosen(command)
        notes: list[Bundle] = []
        if command.names is None and (lent := self._lent()):
            self._note(request, notes, plain(lent))
        self._wanted = frozenset(branch.name for branch in branches)
        try:
            return await self._run(request, command, branches, notes)
        finally:
            self._wanted = frozenset()

    def _note(self, request: Request, notes: list[Bundle], bundle: Bundle) -> None:
        """Show what stays above the outputs, also once a preview has been cleared away."""
        notes.append(bundle)
        self._publisher.display(request, bundle)

    async def _run(
        self,
        request: Request,
        command: RunIn,
        branches: list[Branch],
        notes: list[Bundle],
    ) -> dict[str, Any]:
        sides = [Column(branch.name) for branch in branches]
        pumps = await self._reach(request, branches, sides, notes)
        started_s = time.monotonic()
        previewed = asyncio.Event()
        preview = asyncio.create_task(self._preview(request, sides, previewed))
        try:
            await asyncio.gather(
                *(self._run_in(pump, side, request, command.body) for pump, side in pumps)
            )
        finally:
            preview.cancel()
        total_ms = round((time.monotonic() - started_s) * 1000, 1)
        if previewed.is_set():
            # A front end that knows no updates still gets the result, in place of the preview.
            self._publisher.publish("clear_output", {"wait": True}, request.message.header)
            for bundle in notes:
                self._publisher.display(request, bundle)
        self._publisher.display(request, self._bundle(sides, total_ms))
        failed = [side for side in sides if side.status != "ok"]
        if not failed:
            return {"status": "ok"}
        failure = _failure(failed, len(sides))
        self._publisher.publish("error", failure, request.message.header)
        return {"status": "error", **failure}

    async def _reach(
        self,
        request: Request,
        branches: list[Branch],
        sides: list[Column],
        notes: list[Bundle],
    ) -> list[tuple[Pump, Column]]:
        """The kernels that the cell can run in; the other sides fail."""
        for side in sides:
            with _failing(side, sides):
                resumed = await self._awakening.need(side.name)
                if resumed is not None:
                    self._note(request, notes, resumption(self._session, resumed))
        reached: list[tuple[Pump, Column]] = []
        # All of them are up by now; one may have gone again while another came up.
        for branch, side in zip(branches, sides, strict=True):
            if side.status == "running":
                with _failing(side, sides):
                    self._session.outside.stopping.require(branch.name)
                    reached.append((self._pumps.of(branch), side))
        return reached

    def _lent(self) -> list[Line]:
        """That those are left out which carry on in other notebooks."""
        return [
            note("○", f"{it.name} is left out", open_as(self._session.key_of(it.record.lent_to)))
            for it in self._session.branches()
            if it.record.lent_to is not None
        ]

    def _chosen(self, command: RunIn) -> list[Branch]:
        if command.names is None:
            current = self._session.current.name
            others = [
                branch
                for branch in self._session.branches()
                if branch.state in _WITHIN_REACH and branch.name != current
            ]
            if not others:
                raise UsageError(
                    "there is no live branch besides the current one",
                    hint="make some with %fork N; %branches shows what there is",
                )
            return others
        branches = [self._session.branch(name) for name in command.names]
        for branch in branches:
            # Of one that is lent the session says who has it, once it is woken.
            if branch.state not in (*_WITHIN_REACH, BranchState.LENT):
                raise UsageError(
                    f"branch {branch.name!r} is {branch.state.value}: nothing runs in it",
                    hint=f"wake it with %switch {branch.name}; %branches shows the live ones",
                )
        return branches

    async def _run_in(self, pump: Pump, side: Column, request: Request, body: str) -> None:
        asked = request.message.read()
        content: dict[str, Any] = {
            "code": body,
            "silent": False,
            "store_history": asked.get("store_history", True),
            "user_expressions": {},
            "allow_stdin": False,
            # Nothing is queued behind it there, and what we send next must not be aborted.
            "stop_on_error": False,
        }
        message = self._stamp.request("execute_request", content)

        def pass_on(comm: Message) -> None:
            if self._pumps.is_current(pump):
                self._publisher.forward(comm)

        conversation = Collecting(side, pass_on)
        try:
            await self._wait_free(pump, side)
        except BranchpointError as error:
            conversation.fail(error)
            return
        await pump.ask(message, conversation)
        await conversation.done

    async def _wait_free(self, pump: Pump, side: Column) -> None:
        if not pump.occupied:
            await pump.wait_free()
            return
        name = pump.branch.name
        interrupted = UsageError(
            f"interrupted: a cell still runs in branch {name!r}, and this one was not begun there",
            hint=f"wait for it, or interrupt it after %switch {name}",
        )
        wait = Stoppable()
        self._waits.add(wait)
        side.status = "waiting"
        try:
            await wait.run(pump.wait_free(), interrupted)
        finally:
            self._waits.remove(wait)
            side.status = "running"

    async def _preview(
        self, request: Request, sides: list[Column], previewed: asyncio.Event
    ) -> None:
        # A quick cell shows its result once; a slow one shows what there is, again and again.
        redrawing = Redrawing()
        await redrawing.rest()
        previewed.set()
        display_id = uuid4().hex
        shown = redrawing.draw(sides)
        self._publisher.display(request, shown, display_id)
        while True:
            await redrawing.rest()
            now = redrawing.draw(sides)
            if now != shown:
                shown = now
                self._publisher.update_display(request, now, display_id)

    def _bundle(self, sides: list[Column], total_ms: float) -> dict[str, Any]:
        more = {"runs": [side.record() for side in sides]}
        fact = Fact("branch", total_ms=total_ms, more=more)
        return {**as_data(sides), RECORD_TYPE: record(self._session, fact)}


@contextmanager
def _failing(side: Column, sides: list[Column]) -> Generator[None]:
    """What goes wrong with one of several sides is shown in its place, and the others go on."""
    try:
        yield
    except BranchpointError as error:
        if len(sides) == 1:
            raise
        side.fail(error)


def _failure(failed: list[Column], count: int) -> dict[str, Any]:
    names = ", ".join(side.name for side in failed)
    line = f"the cell failed in {len(failed)} of {count} branches: {names}"
    lines = [line, *(f"{side.name}: {side.failure}" for side in failed)]
    return {"ename": "BranchFailed", "evalue": line, "traceback": lines}
