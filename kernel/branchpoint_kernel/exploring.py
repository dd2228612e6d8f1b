"""`explore`: the options of one call, each in a fork of that very moment, several at a time."""

import asyncio
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

from branchpoint_guest.wire import MAX_BODY
from branchpoint_kernel.columns import printed_text
from branchpoint_kernel.conversations import Marker
from branchpoint_kernel.exploring_room import RoomToExplore
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.messages import EMPTY, Channel, Stamp, made
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_vmruntime.branch_seam import Branch, GuestCall
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint
from branchpoint_vmruntime.session import MAX_FORKS, Session

log = logging.getLogger(__name__)

MAX_OPTIONS = 4096
# What a fork printed is on its way: it is there soon unless the machine hardly gets a processor.
CATCH_UP_S = 60.0
PROGRESS_EVERY_S = 1.0
# One message may hold this much, with room for what else it says.
MOST_TOGETHER = MAX_BODY - (64 << 20)
TOO_MUCH_TOGETHER = (
    "the results together are more than {megabytes} MB as they are sent: "
    "write large ones to a file, and get that with %get"
)


class _Progress:
    """One line in the cell that explores, once it takes a while."""

    def __init__(self, pump: Pump, options: int) -> None:
        self.done = 0
        self._pump = pump
        self._options = options
        self._display_id = uuid4().hex
        self._shown = -1

    async def keep_up(self) -> None:
        """Show how far it has come, for ever."""
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self.show()

    def show(self) -> None:
        """Show it now, if there is news."""
        asker = self._pump.asker()
        if asker is None or self._shown == self.done:
            return
        kind = "display_data" if self._shown < 0 else "update_display_data"
        self._shown = self.done
        data = {"text/plain": f"explored {self.done} of {self._options} options"}
        transient = {"display_id": self._display_id}
        content = {"data": data, "metadata": {}, "transient": transient}
        message = made(Channel.IOPUB, kind, content, parent=asker.header or EMPTY)
        asker.conversation.take(message)

    def finish(self) -> None:
        """The last word, if there was a first."""
        if self._shown >= 0:
            self.show()


class _Together:
    """The results of one exploration: they go to the code that asked in one message."""

    def __init__(self) -> None:
        self._size = 0

    def admit(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result, or that there is no room for it beside those that are there."""
        size = len(result["payload"] or "") + len(json.dumps(result["output"]))
        if self._size + size <= MOST_TOGETHER:
            self._size += size
            return result
        failure = TOO_MUCH_TOGETHER.format(megabytes=MOST_TOGETHER // 1_000_000)
        return {**result, "payload": None, "output": "", "failure": failure}


class Exploring:
    """Carries out explorations; whatever happens, their forks end with them."""

    def __init__(self, session: Session, pumps: Pumps, handover: Handover, stamp: Stamp) -> None:
        self._session = session
        self._pumps = pumps
        self._handover = handover
        self._stamp = stamp
        self._numbers = count(1)
        self._next_to_fork = asyncio.Lock()
        self._room = RoomToExplore(session.room)
        self._payloads: dict[str, asyncio.Future[str]] = {}

    def take_result(self, pump: Pump, payload: str) -> None:
        """What came of the option in that fork."""
        expected = self._payloads.get(pump.branch.name)
        if expected is None:
            raise UsageError("nobody explores this branch")
        if not expected.done():
            expected.set_result(payload)

    async def explore(self, pump: Pump, call: GuestCall) -> dict[str, Any] | None:
        """The answer to the call; None if its caller is gone."""
        options = _number(call.request.get("count"), MAX_OPTIONS, "options")
        asked = call.request.get("at_once")
        at_once = MAX_FORKS if asked is None else _number(asked, MAX_OPTIONS, "forks at once")
        with self._room.exploring(pump.branch.name):
            return await self._explore(pump, call, options, at_once)

    async def _explore(
        self, pump: Pump, call: GuestCall, options: int, at_once: int
    ) -> dict[str, Any] | None:
        started_s = time.monotonic()
        exploring = asyncio.create_task(self._run_all(pump, options, at_once))
        leaving = [asyncio.create_task(call.gone.wait()), asyncio.create_task(pump.gone.wait())]
        try:
            await asyncio.wait([exploring, *leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in leaving:
                task.cancel()
            if not exploring.done():
                exploring.cancel()
                await asyncio.wait([exploring])
        if exploring.cancelled():
            return None
        total_ms = round((time.monotonic() - started_s) * 1000, 1)
        value = {"results": exploring.result(), "total_ms": total_ms}
        return {"status": "ok", "data": None, "value": value}

    async def _run_all(self, pump: Pump, options: int, at_once: int) -> list[dict[str, Any]]:
        origin = await self._session.fork_point(branch=pump.branch.name)
        series = self._new_series()
        seats = asyncio.Semaphore(min(at_once, options, len(os.sched_getaffinity(0))))
        progress, together = _Progress(pump, options), _Together()

        async def run(index: int) -> dict[str, Any]:
            async with seats:
                result = await self._run_one(pump, origin, f"explore-{series}-{index}", index)
            progress.done += 1
            return together.admit(result)

        showing = asyncio.create_task(progress.keep_up())
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(run(index)) for index in range(1, options + 1)]
        finally:
            showing.cancel()
            progress.finish()
        return [task.result() for task in running]

    async def _run_one(
        self, parent: Pump, origin: Checkpoint, name: str, index: int
    ) -> dict[str, Any]:
        """One option's result. What goes wrong with its fork is its failure, and nobody else's."""
        # Expected before there is anyone to send it: a quick option may be done at once.
        payload = self._payloads[name] = asyncio.get_running_loop().create_future()
        try:
            branch = await self._fork(parent, origin, name, index)
            with self._room.taken(name):
                try:
                    return await self._watch(branch, payload)
                finally:
                    await self._end(name)
        except BranchpointError as error:
            return _result(name, failure=f"its fork did not come up: {error}")
        finally:
            del self._payloads[name]

    async def _fork(self, parent: Pump, origin: Checkpoint, name: str, index: int) -> Branch:
        async with self._next_to_fork:
            await self._room.wait()
            return await self._fork_whole(parent, origin, name, index)

    async def _fork_whole(self, parent: Pump, origin: Checkpoint, name: str, index: int) -> Branch:
        forking = asyncio.create_task(
            self._session.fork(
                1, start=origin, names=[name], branch=parent.branch.name, first_index=index
            )
        )
        try:
            report = await asyncio.shield(forking)
        except asyncio.CancelledError:
            # Half a fork cannot be ended; a whole one can.
            with suppress(BranchpointError):
                await forking
            await self._end(name)
            raise
        if not report.branches:
            raise report.failures[0].error
        return report.branches[0]

    async def _watch(self, branch: Branch, payload: asyncio.Future[str]) -> dict[str, Any]:
        """Wait for what comes of an option."""
        started_s = time.monotonic()
        pump = self._pumps.of(branch)
        collected = self._handover.collect(branch)
        gone = asyncio.create_task(pump.gone.wait())
        ends: set[asyncio.Future[Any]] = {payload, gone}
        if collected is not None:
            ends.add(collected[1].done)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        run_ms = round((time.monotonic() - started_s) * 1000, 1)
        await self._catch_up(pump)
        output = "" if collected is None else printed_text(collected[0])
        if payload.done():
            return _result(branch.name, branch, payload.result(), output=output, run_ms=run_ms)
        if pump.ended is not None:
            failure = str(pump.ended)
        else:
            reason = "" if collected is None else collected[0].failure
            failure = f"its cell ended without a result{reason and ': '}{reason}"
        return _result(branch.name, branch, failure=failure, output=output, run_ms=run_ms)

    async def _catch_up(self, pump: Pump) -> None:
        """Wait for what was printed: it may come after the result, which takes another way.

        The kernel says what it has to say in order, so an answer on iopub comes behind it.
        """
        marker = Marker()
        message = replace(self._stamp.request("kernel_info_request", {}), channel=Channel.CONTROL)
        with suppress(TimeoutError, BranchpointError):
            async with asyncio.timeout(CATCH_UP_S):
                await pump.ask(message, marker)
                await marker.passed.wait()

    async def _end(self, name: str) -> None:
        """Give a fork up, if it came to be."""
        there = [branch.name for branch in self._session.branches() if branch.name == name]
        if not there or self._session.branch(name).state is BranchState.DROPPED:
            return
        try:
            await self._session.drop([name])
        except BranchpointError as error:
            log.warning("fork %s could not be given up: %s", name, error)
        finally:
            self._pumps.adopt()

    def _new_series(self) -> int:
        taken = {branch.name for branch in self._session.branches()}
        return next(number for number in self._numbers if f"explore-{number}-1" not in taken)


def _number(value: Any, most: int, what: str) -> int:
    if not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"explore takes 1 to {most} {what}, not {value!r}")
    return value


def _result(
    name: str,
    branch: Branch | None = None,
    payload: str | None = None,
    *,
    failure: str = "",
    output: str = "",
    run_ms: float = 0.0,
) -> dict[str, Any]:
    memory = None if branch is None else branch.memory()
    return {
        "branch": name,
        "payload": payload,
        "failure": failure,
        "output": output,
        "awake_ms": 0.0 if branch is None else branch.cost.awake_ms,
        "run_ms": run_ms,
        "own_bytes": 0 if memory is None else memory.own_bytes,
        "shared_bytes": 0 if memory is None else memory.shared_bytes,
    }
