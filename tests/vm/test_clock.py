"""After a wake the wall clock is the host's, and no minute shows on the monotonic one."""

import json
import time
from dataclasses import dataclass

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

AWAY_S = 60.0
SKEW_S = 0.05
NAP_S = 12.0
# Generous to a loaded host, and far from the minute that must not show.
SLACK_S = 45.0

CLOCKS = "time.time(), time.monotonic()"

NAP = f"""
import asyncio, json, threading, time
naps = {{}}
async def nap():
    began = time.monotonic()
    await asyncio.sleep({NAP_S})
    naps["asyncio"] = (began, {CLOCKS})
def doze():
    began = time.monotonic()
    time.sleep({NAP_S})
    naps["thread"] = (began, {CLOCKS})
task = asyncio.create_task(nap())
thread = threading.Thread(target=doze)
thread.start()
await asyncio.sleep(0)
before = time.monotonic()
%checkpoint asleep
"""


@dataclass(frozen=True)
class Reading:
    """The guest's clocks, and between which instants of the host's they were read."""

    sent_s: float
    wall_s: float
    monotonic_s: float
    received_s: float

    @property
    def skew_s(self) -> float:
        """How far the guest's wall clock was outside what it can have been."""
        return max(self.sent_s - self.wall_s, self.wall_s - self.received_s, 0.0)


@dataclass(frozen=True)
class Absence:
    """What clocks and sleeps gave before a checkpoint and a minute later, back at it."""

    before_monotonic_s: float
    after_checkpoint: Reading
    back: Reading
    forked: Reading
    woken_s: float
    naps: dict[str, tuple[float, float, float]]


def read(kernel: LiveKernel) -> Reading:
    sent_s = time.time()
    cell = kernel.finish(kernel.start(f"print({CLOCKS})"))
    wall_s, monotonic_s = map(float, cell.text.split())
    return Reading(sent_s, wall_s, monotonic_s, cell.first_output_s)


def read_in_fork(kernel: LiveKernel) -> Reading:
    kernel.run("%fork 1 --from asleep --names late")
    sent_s = time.time()
    wall_s, monotonic_s = map(float, kernel.values(CLOCKS, ["late"])["late"].split())
    return Reading(sent_s, wall_s, monotonic_s, time.time())


@pytest.fixture(scope="module")
def absence(shared_kernel: LiveKernel) -> Absence:
    shared_kernel.run(NAP)
    after_checkpoint = read(shared_kernel)
    before = float(shared_kernel.value("before"))
    time.sleep(AWAY_S)
    woken_s = time.time()
    shared_kernel.run("%rollback asleep")
    back = read(shared_kernel)
    forked = read_in_fork(shared_kernel)
    naps = shared_kernel.run("await task; thread.join(); print(json.dumps(naps))").text
    return Absence(before, after_checkpoint, back, forked, woken_s, json.loads(naps))


def test_the_wall_clock_is_the_hosts_right_after_a_rollback_to_a_minute_ago(
    absence: Absence,
) -> None:
    assert absence.back.skew_s <= SKEW_S


def test_the_wall_clock_is_the_hosts_in_a_fork_from_a_minute_ago(absence: Absence) -> None:
    assert absence.forked.skew_s <= SKEW_S


def test_the_wall_clock_is_the_hosts_right_after_a_checkpoint(absence: Absence) -> None:
    assert absence.after_checkpoint.skew_s <= SKEW_S


def test_the_monotonic_clock_does_not_show_the_minute(absence: Absence) -> None:
    passed_s = absence.back.monotonic_s - absence.before_monotonic_s
    assert 0 <= passed_s < SLACK_S


def test_the_monotonic_clock_does_not_show_the_minute_in_a_fork(absence: Absence) -> None:
    passed_s = absence.forked.monotonic_s - absence.before_monotonic_s
    assert 0 <= passed_s < SLACK_S


@pytest.mark.parametrize("sleeper", ["asyncio", "thread"])
def test_a_sleep_pending_at_a_checkpoint_is_slept_to_its_end_after_the_rollback(
    absence: Absence, sleeper: str
) -> None:
    began_s, ended_wall_s, ended_s = absence.naps[sleeper]
    assert ended_wall_s >= absence.woken_s - SKEW_S, "it was over before the checkpoint"
    assert ended_wall_s <= absence.back.received_s + NAP_S + SLACK_S
    assert NAP_S <= ended_s - began_s < NAP_S + SLACK_S
