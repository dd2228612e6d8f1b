"""A machine that was paused carries on from the very moment, soon afterwards or a week later."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from tests.support.guest_server import PORT, SERVER, ask
from tests.support.live_kernel import qemu_processes

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.reports import PauseReport, ResumeReport
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.retention import StoreBudgets

pytestmark = pytest.mark.vm

KEY = "paused"
SET_BACK = "set-back"
DAY_S = 24 * 3600
WEEK_S = 7 * DAY_S
YEAR_S = 365 * DAY_S
AWAY_S = 3.0
PATIENCE_S = 120.0
SKEW_S = 1.0
# What a loaded host may take from one tick to the next.
SLACK_S = 600.0
# The counter is in a shell variable: it is written down and never read back.
TICKER = """#!/bin/sh
i=0
while true; do
i=$((i+1))
echo "$i $(date -u +%s.%N) $$" >> /tmp/tick.log
sleep 1
done
"""
BEGIN = """
cat > /tmp/tick.sh && chmod +x /tmp/tick.sh
setsid nohup /tmp/tick.sh </dev/null >/dev/null 2>&1 &
"""
IDLE_S = 3
IDLE = f"idle_pause: {{others: off, current: {IDLE_S}s}}"
IDLE_OFF = "idle_pause: off"
WORK = "import subprocess; work = subprocess.Popen(['sh', '-c', 'while :; do :; done'])"


@dataclass(frozen=True)
class Tick:
    """A line of the log."""

    count: int
    at_s: float
    pid: int


@dataclass(frozen=True)
class Story:
    """What was seen of one machine: paused and resumed by a forward, and again a week later."""

    ticks: list[Tick]
    short: PauseReport
    memory_while_paused: object
    processes_while_paused: list[int]
    resumed: list[ResumeReport]
    servers: list[int]
    long: ResumeReport
    state_when_opened: BranchState
    woken_at_s: float
    read_at_s: float
    state_while_working: BranchState
    state_when_idle: BranchState


async def ticks(session: OwnedSession) -> list[Tick]:
    """The log so far, but for a line that is being written."""
    log = (await session.current.execute(["cat", "/tmp/tick.log"])).stdout
    lines = [line.split() for line in log.splitlines(keepends=True) if line.endswith("\n")]
    return [Tick(int(count), float(at_s), int(pid)) for count, at_s, pid in lines]


async def ticks_after(session: OwnedSession, before: int) -> list[Tick]:
    """The log once the counter has gone on by two."""
    async with asyncio.timeout(PATIENCE_S):
        while not (there := await ticks(session)) or there[-1].count < before + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    return there


def lose_all_that_ends_with_the_host(home: Home) -> None:
    """As a restart of the host leaves it, and a cleaning of what can be made again."""
    for folder in (home.run, home.live, home.flat):
        shutil.rmtree(folder)


async def begin(session: OwnedSession) -> int:
    """Start the counter and a server, and forward the server's port; that port on the host."""
    begun = await session.current.execute(["sh", "-c", BEGIN], stdin=TICKER)
    assert begun.status == 0, begun
    served = await session.current.run(SERVER)
    assert served.status == "ok", served
    return (await session.outside.forwards.add(PORT)).host_port


async def first_owner(runtime: Runtime, seen: dict[str, Any]) -> None:
    """Pause, have two connections at once resume it, and pause again with its clock a week back.

    It is resumed once its memory was brought together, which happens by itself.
    """
    async with runtime.session(Manifest.parse(IDLE_OFF), key=KEY) as session:
        resumed: list[ResumeReport] = []
        session.on_resumed = resumed.append
        port = await begin(session)
        servers = [(await asyncio.to_thread(ask, port))["pid"]]
        await ticks_after(session, 1)
        seen["short"] = await session.pause()
        seen["memory"] = session.current.memory()
        seen["processes"] = qemu_processes(runtime.home.root)
        image = runtime.home.flat / session.record.id / f"{seen['short'].checkpoint.id}.mem"
        async with asyncio.timeout(PATIENCE_S):
            while not image.exists():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.2)
        await asyncio.sleep(AWAY_S)
        asked = [asyncio.to_thread(ask, port) for _ in range(2)]
        servers += [answer["pid"] for answer in await asyncio.gather(*asked)]
        seen["resumed"] = resumed
        await ticks_after(session, (await ticks(session))[-1].count)
        # What is saved now was last at work a week ago, as far as it can tell.
        await session.current.execute(["date", "-s", "7 days ago"])
        await ticks_after(session, (await ticks(session))[-1].count)
        await session.pause()
        seen["servers"] = servers


async def later_owner(runtime: Runtime, seen: dict[str, Any]) -> None:
    """Carry on, work in the background for longer than it may be idle, and be idle."""
    async with runtime.session(Manifest.parse(IDLE), key=KEY, fresh=False) as session:
        seen["opened"] = session.current.state
        resumed: list[ResumeReport] = []
        session.on_resumed = resumed.append
        seen["woken_at_s"] = time.time()
        await session.awake()
        await ticks_after(session, (await ticks(session))[-1].count)
        seen["ticks"], seen["read_at_s"] = await ticks(session), time.time()
        seen["servers"].append(int((await session.current.run("print(os.getpid())")).text))
        seen["long"] = resumed[0]
        # Every second a new process is started: emulated, that is work.
        await session.current.run(f"os.kill({seen['ticks'][0].pid}, 9); {WORK}")
        await asyncio.sleep(2 * IDLE_S)
        seen["working"] = session.current.state
        await session.current.run("work.kill(); work.wait()")
        async with asyncio.timeout(PATIENCE_S):
            while session.current.state is BranchState.LIVE:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.2)
        seen["idle"] = session.current.state


@pytest.fixture(scope="module")
def story(home: Home) -> Story:
    seen: dict[str, Any] = {}

    async def live_through() -> None:
        async with Runtime(home) as runtime:
            await first_owner(runtime, seen)
        lose_all_that_ends_with_the_host(home)
        async with Runtime(home) as runtime:
            await later_owner(runtime, seen)

    asyncio.run(live_through())
    return Story(
        ticks=seen["ticks"],
        short=seen["short"],
        memory_while_paused=seen["memory"],
        processes_while_paused=seen["processes"],
        resumed=seen["resumed"],
        servers=seen["servers"],
        long=seen["long"],
        state_when_opened=seen["opened"],
        woken_at_s=seen["woken_at_s"],
        read_at_s=seen["read_at_s"],
        state_while_working=seen["working"],
        state_when_idle=seen["idle"],
    )


class YearAhead(datetime):
    """Tells the time of a host whose clock is a year ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        """A year more than it is."""
        return datetime.now(tz) + timedelta(seconds=YEAR_S)


@contextmanager
def a_clock_that_is_a_year_ahead() -> Generator[None]:
    """Have the runtime in this process, and the machines it wakes, believe so."""
    ours = [it for name, it in sys.modules.items() if name.startswith("branchpoint_vmruntime")]
    real = time.time
    with ExitStack() as stack:
        for module in ours:
            if vars(module).get("datetime") is datetime:
                stack.enter_context(patch.object(module, "datetime", YearAhead))
        stack.enter_context(patch("time.time", lambda: real() + YEAR_S))
        yield


async def saved_a_year_ahead(home: Home) -> list[Tick]:
    """Leave a safety checkpoint and a paused machine, in which a counter has begun."""
    async with (
        Runtime(home) as runtime,
        runtime.session(Manifest.parse(IDLE_OFF), key=SET_BACK) as session,
    ):
        await session.checkpoint("kept")
        await session.rollback("kept")
        begun = await session.current.execute(["sh", "-c", BEGIN], stdin=TICKER)
        assert begun.status == 0, begun
        there = await ticks_after(session, 1)
        await session.pause()
    return there


async def carried_on(home: Home) -> tuple[list[Tick], ResumeReport, list[str]]:
    """The log once the counter has gone on; the labels in the order they were made in."""
    async with (
        Runtime(home) as runtime,
        runtime.session(Manifest.parse(IDLE_OFF), key=SET_BACK, fresh=False) as session,
    ):
        resumed: list[ResumeReport] = []
        session.on_resumed = resumed.append
        await session.awake()
        there = await ticks_after(session, (await ticks(session))[-1].count)
        await session.checkpoint("later")
        return there, resumed[0], [each.label for each in session.checkpoints()]


def listed(home: Home) -> str:
    """The line that `branchpoint ls` has of the session that was saved a year ahead."""
    command = [sys.executable, "-P", "-m", "branchpoint_cli", "ls"]
    environment = os.environ | {"BRANCHPOINT_HOME": str(home.root)}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    (line,) = [line for line in said.stdout.splitlines() if line.endswith(f" {SET_BACK}")]
    return line


def would_go(home: Home, budgets: StoreBudgets) -> list[str]:
    """What of that session a collection would take."""
    found = asyncio.run(collect(home, budgets=budgets, dry_run=True))
    (session,) = [stay.session for stay in found.stays if stay.key == SET_BACK]
    return [removal.name for removal in found.removals if removal.session == session]


def test_a_clock_that_is_set_back_over_a_pause_loses_nothing_and_is_the_machine_s_too(
    home: Home,
) -> None:
    with a_clock_that_is_a_year_ahead():
        before = asyncio.run(saved_a_year_ahead(home))
    assert " 0 s " in listed(home)
    assert would_go(home, StoreBudgets(checkpoints=2)) == ["before-rollback-1"]
    assert would_go(home, StoreBudgets(age_s=DAY_S)) == []
    woken_at_s = time.time()
    after, resumed, labels = asyncio.run(carried_on(home))
    assert resumed.away_s == 0
    assert [tick.count for tick in after] == list(range(1, len(after) + 1))
    assert len({tick.pid for tick in after}) == 1
    ahead = [tick for tick in after if tick.at_s > woken_at_s + YEAR_S / 2]
    assert ahead == after[: len(ahead)]
    assert ahead[: len(before)] == before
    assert all(woken_at_s - SKEW_S <= tick.at_s for tick in after[len(ahead) :])
    assert after[-1].at_s <= time.time() + SKEW_S
    assert labels[-1] == "later"


def gaps(story: Story) -> list[float]:
    """How long after the one before each tick came, by the machine's wall clock."""
    return [after.at_s - before.at_s for before, after in pairwise(story.ticks)]


def test_the_counter_goes_on_in_the_same_process_with_no_value_left_out_or_repeated(
    story: Story,
) -> None:
    counts = [tick.count for tick in story.ticks]
    assert counts == list(range(1, len(counts) + 1))
    assert len({tick.pid for tick in story.ticks}) == 1


def test_only_time_shows_the_pauses_be_they_short_or_a_week(story: Story) -> None:
    assert [gap for gap in gaps(story) if gap > WEEK_S - SLACK_S] == [
        pytest.approx(WEEK_S, abs=SLACK_S)
    ]
    assert any(AWAY_S <= gap < SLACK_S for gap in gaps(story))


def test_the_wall_clock_is_the_host_s_from_the_first_tick_after_a_week(story: Story) -> None:
    awake = [tick for tick in story.ticks if tick.at_s >= story.woken_at_s - SKEW_S]
    assert awake
    assert awake[0].count == 1 + max(t.count for t in story.ticks if t not in awake)
    assert awake[-1].at_s <= story.read_at_s + SKEW_S


def test_while_it_is_paused_there_is_no_process_and_no_memory(story: Story) -> None:
    assert story.processes_while_paused == []
    assert story.memory_while_paused is None
    assert story.short.freed_bytes > 0


def test_two_connections_to_a_forward_resume_it_once_and_are_both_answered(story: Story) -> None:
    assert len(story.resumed) == 1
    assert story.resumed[0].away_s >= AWAY_S
    assert len(story.servers) == 4
    assert len(set(story.servers)) == 1


def test_it_is_paused_still_when_nothing_but_its_checkpoints_is_left(story: Story) -> None:
    assert story.state_when_opened is BranchState.PAUSED
    assert story.long.checkpoint.kind is CheckpointKind.PAUSED


def test_work_in_the_background_keeps_it_from_being_paused_and_its_end_does_not(
    story: Story,
) -> None:
    assert story.state_while_working is BranchState.LIVE
    assert story.state_when_idle is BranchState.PAUSED
