"""Who is idle since when, and what becomes of those who have been for long enough."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_workshop import FULL, FakeWorkshop, Office, office, snapshot
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import idling
from branchpoint_vmruntime.budget import IdlePause
from branchpoint_vmruntime.idling import (
    BUSY_SHARE,
    SLACK_S,
    Idling,
    Sample,
    cpu_seconds,
    waiting_seconds,
    watch,
)
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind

SECONDS = st.floats(min_value=0.25, max_value=60)
# By how much a machine's counters move from one look to the next: nothing that counts as work.
RESTING = st.floats(min_value=0, max_value=0.9 * BUSY_SHARE)
LOOKS = st.lists(st.tuples(SECONDS, RESTING, st.sampled_from(["", "", "", *"tbci"])), max_size=40)


def samples(looks: Sequence[tuple[float, float, str]]) -> list[tuple[Sample, bool]]:
    """Samples taken one after another, each with whether something happened before it.

    t: traffic, b: busy at that moment, c: computing, i: another incarnation.
    """
    now = Sample(incarnation="0", at_s=100.0, cpu_s=3.0, traffic=(0, 0))
    taken = [(now, True)]
    for passed_s, share, event in looks:
        used_s = passed_s * share + (passed_s * BUSY_SHARE + 2 * SLACK_S if event == "c" else 0)
        now = replace(
            now,
            incarnation=now.incarnation + ("x" if event == "i" else ""),
            at_s=now.at_s + passed_s,
            cpu_s=now.cpu_s + used_s,
            traffic=(now.traffic[0] + (event == "t"), 0),
            busy=event == "b",
        )
        taken.append((now, bool(event)))
    return taken


@given(LOOKS)
def test_a_machine_is_idle_since_the_last_time_anything_happened(
    looks: list[tuple[float, float, str]],
) -> None:
    watched, last_s = None, 0.0
    for sample, happened in samples(looks):
        watched = watch(watched, sample)
        last_s = sample.at_s if happened else last_s
        assert watched.idle_s == sample.at_s - last_s


@given(SECONDS, st.floats(min_value=0, max_value=1))
def test_less_than_a_tenth_of_a_core_is_no_work_and_clearly_more_is(
    passed_s: float, share: float
) -> None:
    first = Sample(incarnation="a", at_s=0.0, cpu_s=0.0)
    then = replace(first, at_s=passed_s, cpu_s=share * passed_s)
    is_idle = watch(watch(None, first), then).idle_s > 0
    if share < BUSY_SHARE:
        assert is_idle
    if share * passed_s > BUSY_SHARE * passed_s + SLACK_S:
        assert not is_idle


@given(SECONDS, st.floats(min_value=0, max_value=1), st.floats(min_value=0, max_value=1))
def test_of_the_time_it_waited_for_a_processor_a_machine_may_have_worked_all_the_same(
    passed_s: float, waited: float, share: float
) -> None:
    first = Sample(incarnation="a", at_s=0.0, cpu_s=0.0)
    had_s = passed_s * (1 - waited)
    then = replace(first, at_s=passed_s, waited_s=passed_s - had_s, cpu_s=share * had_s)
    is_idle = watch(watch(None, first), then).idle_s > 0
    if share < BUSY_SHARE:
        assert is_idle
    if share * had_s > BUSY_SHARE * had_s + SLACK_S + 1e-6:
        assert not is_idle


@given(SECONDS, st.floats(min_value=-100, max_value=1000))
def test_waits_of_many_threads_or_of_some_that_ended_make_no_work_of_rest(
    passed_s: float, waited_s: float
) -> None:
    first = Sample(incarnation="a", at_s=0.0, cpu_s=0.0, waited_s=100.0)
    then = replace(first, at_s=passed_s, waited_s=100 + waited_s, cpu_s=SLACK_S / 2)
    assert watch(watch(None, first), then).idle_s > 0
    busy = replace(then, cpu_s=passed_s)
    assert (watch(watch(None, first), busy).idle_s == 0) == (passed_s * 0.9 > SLACK_S)


def test_the_time_a_process_has_waited_for_a_processor_is_read_from_the_host() -> None:
    before = waiting_seconds(os.getpid())
    assert 0 <= before <= waiting_seconds(os.getpid())


def test_a_host_that_does_not_count_waiting_is_no_error() -> None:
    assert waiting_seconds(2**22 + 1) == 0.0


def test_the_time_a_process_has_computed_is_read_from_the_host() -> None:
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) < before + 0.05:
        sum(range(10_000))
    assert cpu_seconds(os.getpid()) < before + 60


def _still(_pid: int) -> float:
    return 1.0


def _hard_at_work(_pid: int) -> float:
    return 1e6


class Clock:
    """The time as `idling` is told it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@asynccontextmanager
async def idle_for(
    folder: Path, patch: pytest.MonkeyPatch, limits: IdlePause, workshop: FakeWorkshop | None = None
) -> "AsyncGenerator[tuple[Office, Idling, Clock]]":
    """A session with a branch `other`, looked at only when the test says so."""
    clock = Clock()
    patch.setattr(idling, "cpu_seconds", _still)
    patch.setattr(idling.time, "monotonic", clock.monotonic)
    async with office(folder, workshop) as it:
        await it.session.fork(1, names=["other"])
        watching = Idling(it.session, limits)
        await watching.look()
        yield it, watching, clock


@in_a_loop
async def test_only_a_branch_that_is_not_current_is_paused_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with idle_for(tmp_path, monkeypatch, IdlePause()) as (it, watching, clock):
        clock.now_s = 899.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.LIVE
        clock.now_s = 900.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.PAUSED
        assert it.session.current.state is BranchState.LIVE
        assert it.session.checkpoints()[-1].kind is CheckpointKind.PAUSED


@in_a_loop
async def test_the_current_branch_is_paused_after_a_time_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = IdlePause(others_s=None, current_s=60.0)
    async with idle_for(tmp_path, monkeypatch, limits) as (it, watching, clock):
        clock.now_s = 60.0
        await watching.look()
        assert it.session.current.state is BranchState.PAUSED
        assert it.session.branch("other").state is BranchState.LIVE


@in_a_loop
async def test_a_branch_in_which_a_cell_runs_is_not_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with idle_for(tmp_path, monkeypatch, IdlePause()) as (it, watching, clock):
        it.session.executes = lambda name: name == "other"
        clock.now_s = 2000.0
        await watching.look()
        it.session.executes = lambda _name: False
        clock.now_s = 2899.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.LIVE


@pytest.mark.parametrize("happens", ["traffic", "asked", "computing"])
@in_a_loop
async def test_whatever_a_machine_does_for_anybody_puts_its_pause_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    async with idle_for(tmp_path, monkeypatch, IdlePause()) as (it, watching, clock):
        machine = it.machine("other")
        clock.now_s = 899.0
        if happens == "traffic":
            machine.crossed += 1
        elif happens == "computing":
            monkeypatch.setattr(idling, "cpu_seconds", _hard_at_work)
        else:
            machine.is_asked = True
        await watching.look()
        machine.is_asked = False
        clock.now_s = 1798.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.LIVE
        clock.now_s = 1799.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.PAUSED


@in_a_loop
async def test_a_pause_waits_for_its_turn_and_looks_again_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with idle_for(tmp_path, monkeypatch, IdlePause()) as (it, watching, clock):

        @asynccontextmanager
        async def turn() -> AsyncGenerator[None]:
            it.machine("other").crossed += 1
            yield

        it.session.turn = turn
        clock.now_s = 900.0
        await watching.look()
        assert it.session.branch("other").state is BranchState.LIVE


@in_a_loop
async def test_a_pause_that_fails_harms_nothing_is_told_once_and_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workshop = FakeWorkshop()
    limits = IdlePause(others_s=10.0)
    async with idle_for(tmp_path, monkeypatch, limits, workshop) as (it, watching, clock):
        before = snapshot(it)
        workshop.publish_error = FULL
        tries = 0
        with caplog.at_level(logging.WARNING, logger=idling.__name__):
            for _ in range(2000):
                clock.now_s += 1.0
                known = len(caplog.records)
                await watching.look()
                tries += len(caplog.records) > known
        assert tries == 1
        assert "could not be paused: the disk is full" in caplog.text
        assert snapshot(it) == before
        assert it.machine("other").runs
        workshop.publish_error = None
        clock.now_s += idling.RETRY_S
        await watching.look()
        await watching.look()
        assert it.session.branch("other").state is BranchState.PAUSED


@in_a_loop
async def test_a_session_looks_by_itself_until_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idling, "cpu_seconds", _still)
    async with office(tmp_path, idle=IdlePause(others_s=0.3)) as it:
        await it.session.fork(1, names=["other"])
        while it.session.branch("other").state is BranchState.LIVE:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.02)
        assert it.session.branch("other").state is BranchState.PAUSED
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "idle pause"]
