"""A machine that was paused carries on from the very moment, soon afterwards or a week later."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.support.live_kernel import qemu_processes, wait_until
from tests.support.paused_owner import (
    AWAY_S,
    IDLE_OFF,
    KEY,
    PATIENCE_S,
    Seen,
    Tick,
    begin_to_count,
    ticks,
    ticks_after,
)

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.reports import ResumeReport
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.retention import StoreBudgets

pytestmark = pytest.mark.vm

ROOT = Path(__file__).parents[2]
SET_BACK = "set-back"
DAY_S = 24 * 3600
WEEK_S = 7 * DAY_S
YEAR_S = 365 * DAY_S
SKEW_S = 1.0
# What a loaded host may take from one tick to the next.
SLACK_S = 600.0
IDLE_S = 3
IDLE = f"idle_pause: {{others: off, current: {IDLE_S}s}}"
WORK = "import subprocess; work = subprocess.Popen(['sh', '-c', 'while :; do :; done'])"


@dataclass(frozen=True)
class Story:
    """What was seen of one machine: paused and resumed by a forward, and again a week later."""

    first: Seen
    ticks: list[Tick]
    server: int
    long: ResumeReport
    state_when_opened: BranchState
    woken_at_s: float
    read_at_s: float
    state_while_working: BranchState
    state_when_idle: BranchState


def lose_all_that_ends_with_the_host(home: Home) -> None:
    """As a restart of the host leaves it, and a cleaning of what can be made again."""
    for folder in (home.run, home.live, home.flat):
        shutil.rmtree(folder)


def first_owner(home: Home) -> Seen:
    """Another process, which has the session open until it is killed."""
    owner = subprocess.run(
        [sys.executable, "-P", "-m", "tests.support.paused_owner", str(home.root)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert owner.returncode == -signal.SIGKILL
    assert wait_until(lambda: not qemu_processes(home.root)), "a machine outlived its owner"
    return Seen(**json.loads(owner.stdout))


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
        seen["server"] = int((await session.current.run("print(os.getpid())")).text)
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

    async def carry_on() -> None:
        async with Runtime(home) as runtime:
            await later_owner(runtime, seen)

    first = first_owner(home)
    lose_all_that_ends_with_the_host(home)
    asyncio.run(carry_on())
    return Story(
        first=first,
        ticks=seen["ticks"],
        server=seen["server"],
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
        await begin_to_count(session)
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
    assert story.first.processes == []
    assert not story.first.has_memory
    assert story.first.freed_bytes > 0


def test_two_connections_to_a_forward_resume_it_once_and_are_both_answered(story: Story) -> None:
    (away_s,) = story.first.away_s
    assert away_s >= AWAY_S
    assert len(story.first.servers) == 3
    assert {*story.first.servers} == {story.server}


def test_it_is_paused_still_when_its_owner_was_killed_and_nothing_else_than_checkpoints_is_left(
    story: Story,
) -> None:
    assert story.state_when_opened is BranchState.PAUSED
    assert story.long.checkpoint.kind is CheckpointKind.PAUSED


def test_work_in_the_background_keeps_it_from_being_paused_and_its_end_does_not(
    story: Story,
) -> None:
    assert story.state_while_working is BranchState.LIVE
    assert story.state_when_idle is BranchState.PAUSED
