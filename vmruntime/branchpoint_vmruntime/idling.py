"""Pauses branches with which nothing has happened for a while, by itself."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.budget import IdlePause
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.reports import PauseReport
from branchpoint_vmruntime.session import Turn

log = logging.getLogger(__name__)

# Of one core. A guest that only waits takes a few hundredths, emulated as well.
BUSY_SHARE = 0.10
# The kernel counts CPU time in ticks: two looks in quick succession must not make work of one.
SLACK_S = 0.05
# A pause that failed, as on a full disk, stops the machine for a moment each time it is tried.
RETRY_S = 600.0
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.25, 15.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A machine at one moment: how far its counters are, in seconds of host time and of CPU.

    `waited_s` is for how long its threads have waited for a processor. `traffic` is anything that
    differs once something has crossed to or from it. `busy` tells that it works for somebody at
    this very moment.
    """

    incarnation: str
    at_s: float
    cpu_s: float
    waited_s: float = 0.0
    traffic: tuple[int, ...] = ()
    busy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of a machine that is watched: the last sample, and since when it is idle."""

    sample: Sample
    since_s: float

    @property
    def idle_s(self) -> float:
        """For how long nothing has happened."""
        return self.sample.at_s - self.since_s


def watch(before: Watched | None, sample: Sample) -> Watched:
    """What is known after one sample more. A machine first seen begins to be idle then.

    >>> first = watch(None, Sample(incarnation="a", at_s=10, cpu_s=1.0))
    >>> watch(first, Sample(incarnation="a", at_s=20, cpu_s=1.1)).idle_s
    10
    """
    if before is None or _has_worked(before.sample, sample):
        return Watched(sample=sample, since_s=sample.at_s)
    return Watched(sample=sample, since_s=before.since_s)


def _has_worked(before: Sample, now: Sample) -> bool:
    if (before.incarnation, before.traffic) != (now.incarnation, now.traffic) or now.busy:
        return True
    passed_s = now.at_s - before.at_s
    # On a full host what works gets little: what counts is the time it could have had.
    had_s = passed_s - min(max(now.waited_s - before.waited_s, 0.0), passed_s)
    return now.cpu_s - before.cpu_s > SLACK_S + BUSY_SHARE * had_s


class Idler(Protocol):
    """What is used of the session."""

    turn: Turn
    executes: Callable[[str], bool]

    @property
    def current(self) -> OwnedBranch: ...
    def branches(self) -> Sequence[OwnedBranch]: ...
    async def pause(self, name: str | None = None) -> PauseReport: ...


class Idling:
    """Looks at the live machines of a session now and then. Its session starts and stops it."""

    def __init__(self, session: Idler, limits: IdlePause) -> None:
        self._session = session
        self._limits = limits
        self._watched: dict[str, Watched] = {}
        self._put_off: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, if there is anything that would be paused."""
        limits = [s for s in (self._limits.others_s, self._limits.current_s) if s is not None]
        if limits:
            every_s = min(max(min(limits) / 4, _SHORTEST_LOOK_S), _LONGEST_LOOK_S)
            self._task = asyncio.create_task(self._look_now_and_then(every_s), name="idle pause")

    async def stop(self) -> None:
        """Look no more; a pause under way is called off."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def look(self) -> None:
        """Look at each live machine once, and pause those that have been idle for long enough."""
        names = [it.name for it in self._session.branches() if self._is_idle(it)]
        for name in names:
            await self._pause(name)

    async def _look_now_and_then(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.look()
            except Exception:
                # Whoever drives the session surrounds a pause with work of its own, which may fail.
                log.exception("the idle branches of a session could not be looked at")

    def _is_idle(self, branch: OwnedBranch) -> bool:
        """Take a sample of a branch; whether it is to be paused."""
        limit_s = self._limit_s(branch)
        sample = self._sample(branch) if limit_s is not None else None
        if limit_s is None or sample is None:
            self._watched.pop(branch.name, None)
            return False
        known = self._watched[branch.name] = watch(self._watched.get(branch.name), sample)
        return known.idle_s >= max(limit_s, self._put_off.get(branch.name, 0.0))

    def _limit_s(self, branch: OwnedBranch) -> float | None:
        is_current = branch is self._session.current
        return self._limits.current_s if is_current else self._limits.others_s

    def _sample(self, branch: OwnedBranch) -> Sample | None:
        live = branch.live
        if branch.state is not BranchState.LIVE or live is None:
            return None
        with contextlib.suppress(OSError):
            return Sample(
                incarnation=live.machine.identity.incarnation,
                at_s=time.monotonic(),
                cpu_s=cpu_seconds(live.machine.pid),
                waited_s=waiting_seconds(live.machine.pid),
                traffic=live.machine.traffic(),
                busy=live.machine.is_asked or self._session.executes(branch.name),
            )
        return None

    async def _pause(self, name: str) -> None:
        async with self._session.turn():
            # The turn may have been long in coming, and there may be another machine by then.
            branch = next((it for it in self._session.branches() if it.name == name), None)
            if branch is None or not self._is_idle(branch):
                return
            idle_s = self._watched.pop(name).idle_s
            try:
                await self._session.pause(name)
            except UsageError as error:
                log.debug("branch %s is not paused: %s", name, error)
            except BranchpointError as error:
                self._note_failure(name, error)
            else:
                self._put_off.pop(name, None)
                log.info("branch %s was idle for %.0f s and is paused", name, idle_s)

    def _note_failure(self, name: str, error: BranchpointError) -> None:
        level = logging.DEBUG if name in self._put_off else logging.WARNING
        log.log(level, "branch %s is idle and could not be paused: %s", name, error)
        self._put_off[name] = RETRY_S


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far, in user mode and in the kernel."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    # Fields from the third on: the second is the command's name, which may have spaces in it.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def waiting_seconds(pid: int) -> float:
    """For how long the threads of a process have waited for a processor, all together.

    Those that have ended are not in it, and it is nothing where the kernel does not count it.
    """
    waited_ns = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):
            waited_ns += int(file.read_text().split()[1])
    return waited_ns / 1e9
