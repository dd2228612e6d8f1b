"""What is stopped on waking: that function, all of it, and nothing else."""
# pyright: reportPrivateUsage=false

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator

import pytest

from branchpoint import interruption, waking
from branchpoint.interruption import Interrupted, Run, TaskRun, ThreadRun
from branchpoint.waking import adopt, stop_what_runs, to_stop


@pytest.fixture(autouse=True)
def awake(unwoken: None) -> Generator[None]:
    """The process of a kernel with the hook; nothing is left behind in it."""
    waking.adopt("main", 0, "inc-1", "s-1", "start")
    yield
    assert not to_stop
    assert not interruption.is_inside_run()


@pytest.fixture
def eager_threads() -> Generator[None]:
    """Threads take turns at almost every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Hook(threading.Thread):
    """Stops a run soon after it is told to, at another moment each time."""

    def __init__(self, run: Run, steps: int) -> None:
        super().__init__()
        self._run = run
        self._steps = steps
        self.go = threading.Event()

    def run(self) -> None:
        """Let some time pass, then stop it."""
        self.go.wait()
        some_steps(self._steps)
        self._run.stop()


def some_steps(count: int = 50) -> int:
    """Time for what is still under way to arrive."""
    return sum(number % 7 for number in range(count))


def test_nothing_reaches_the_caller_of_a_function_that_ends_just_then(eager_threads: None) -> None:
    for turn in range(400):
        run = ThreadRun("k")
        hook = Hook(run, turn)
        hook.start()
        with contextlib.suppress(Interrupted), run:
            hook.go.set()
            some_steps(200)
        some_steps()
        hook.join()
        some_steps()
        run.close()
        assert run.interrupted


def test_nothing_is_left_of_what_was_sent_when_it_had_just_ended() -> None:
    run = ThreadRun("k")
    is_held = threading.Event()

    def stop_late() -> None:
        with run._lock:
            is_held.set()
            # Until the other thread waits for the lock, on its way out; if not, nothing is lost.
            time.sleep(0.05)
            run.interrupted = True
            run._interrupt()

    hook = threading.Thread(target=stop_late)
    with contextlib.suppress(Interrupted), run:
        hook.start()
        is_held.wait()
    hook.join()
    some_steps()
    run.close()
    assert run.interrupted


def test_what_wakes_before_it_runs_does_not_run() -> None:
    run = ThreadRun("k")
    run.stop()
    ran = list[int]()
    with pytest.raises(Interrupted), run:
        ran.append(1)
    run.close()
    assert ran == []


def test_what_wakes_after_it_ran_is_told_and_not_stopped() -> None:
    run = ThreadRun("k")
    with run:
        pass
    run.stop()
    some_steps()
    assert run.interrupted
    run.close()


def test_each_is_stopped_once() -> None:
    run = ThreadRun("k")
    cleaned = list[int]()

    def function() -> None:
        try:
            run.stop()
            some_steps()
        finally:
            run.stop()
            some_steps()
            cleaned.append(1)

    with pytest.raises(Interrupted), run:
        function()
    run.close()
    assert cleaned == [1]


def test_an_outer_run_is_stopped_with_the_inner_one_and_by_one_exception() -> None:
    outer = ThreadRun("outer")
    seen = list[str]()
    try:
        with outer:
            inner = ThreadRun("inner")
            try:
                with inner:
                    inner.stop()
                    some_steps()
            except Interrupted:
                seen.append("inner")
                some_steps()
            finally:
                inner.close()
            with pytest.raises(Interrupted):
                inner.leave_if_stopped()
            seen.append("outer")
    finally:
        outer.close()
    assert seen == ["inner", "outer"]
    assert outer.interrupted


def test_a_run_that_has_ended_stops_nothing_that_was_begun_inside_of_it() -> None:
    async def go() -> None:
        outer = TaskRun("outer")

        async def later() -> None:
            inner = TaskRun("inner")
            assert inner.outer is None
            inner.stop()
            inner.leave_if_stopped()
            inner.close()

        with outer:
            task = asyncio.create_task(later())
        outer.close()
        await task
        assert not outer.interrupted

    asyncio.run(go())


def test_children_of_a_stopped_task_are_cancelled_and_its_cleanup_is_awaited() -> None:
    seen = list[str]()

    async def child() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("child cancelled")
            raise

    async def function(run: TaskRun) -> None:
        asyncio.get_running_loop().call_soon(run.stop)
        try:
            await asyncio.gather(child(), child())
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned")

    async def go() -> None:
        run = TaskRun("k")
        with pytest.raises(Interrupted), run:
            await run.guard(function(run))
        run.close()

    asyncio.run(go())
    assert seen == ["child cancelled"] * 2 + ["cleaned"]


def test_a_coroutine_that_does_not_wait_is_stopped_in_its_step() -> None:
    seen = list[str]()

    async def function(run: TaskRun) -> None:
        run.stop()
        some_steps()
        seen.append("went on")

    async def go() -> None:
        run = TaskRun("k")
        with pytest.raises(Interrupted), run:
            await run.guard(function(run))
        run.close()
        await asyncio.sleep(0)

    asyncio.run(go())
    assert seen == []


def test_what_comes_too_late_for_a_step_is_told_at_the_next() -> None:
    seen = list[str]()

    async def function() -> None:
        try:
            await asyncio.sleep(0)
            seen.append("went on")
        finally:
            seen.append("cleaned")

    async def go() -> None:
        run = TaskRun("k")
        end_step = run.end_step

        def end_late() -> None:
            run.end_step = end_step
            run.stop()
            some_steps()

        run.end_step = end_late
        with pytest.raises(Interrupted), run:
            await run.guard(function())
        run.close()

    asyncio.run(go())
    assert seen == ["cleaned"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_coroutine_inside_another_is_stopped_with_it_and_once(waits: bool) -> None:  # noqa: FBT001
    seen = list[str]()

    async def function(stop: Callable[[], None]) -> None:
        try:
            if waits:
                asyncio.get_running_loop().call_soon(stop)
                await asyncio.sleep(30)
            stop()
            some_steps()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append("cleaned")

    async def outer_function() -> None:
        inner = TaskRun("inner")
        try:
            with inner:
                await inner.guard(function(inner.stop))
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned outside")
            inner.close()

    async def go() -> None:
        outer = TaskRun("outer")
        with pytest.raises(Interrupted), outer:
            await outer.guard(outer_function())
        outer.close()
        await asyncio.sleep(0)
        assert outer.task.cancelling() == 0

    asyncio.run(go())
    assert seen == ["cleaned", "cleaned outside"]


def test_a_function_in_a_step_is_stopped_with_it_and_once() -> None:
    seen = list[str]()

    def function(run: Run) -> None:
        try:
            run.stop()
            some_steps()
        finally:
            some_steps()
            seen.append("cleaned")

    async def outer_function() -> None:
        inner = ThreadRun("inner")
        try:
            with inner:
                function(inner)
        finally:
            some_steps()
            seen.append("cleaned outside")
            inner.close()

    async def go() -> None:
        outer = TaskRun("outer")
        with pytest.raises(Interrupted), outer:
            await outer.guard(outer_function())
        outer.close()

    asyncio.run(go())
    assert seen == ["cleaned", "cleaned outside"]


def test_a_task_that_is_cancelled_by_others_too_is_cancelled() -> None:
    async def function(run: TaskRun) -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        loop.call_soon(run.stop)
        loop.call_soon(task.cancel)
        loop.call_soon(lambda: loop.call_soon(task.cancel))
        await asyncio.sleep(30)

    async def go() -> None:
        run = TaskRun("k")
        try:
            with run:
                await run.guard(function(run))
        finally:
            run.close()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())


def test_waking_stops_what_runs_unless_it_is_only_looked_into() -> None:
    run = ThreadRun("k")
    adopt("main", 0, "inc-2", "s-1", "peek")
    assert not run.interrupted
    adopt("main", 0, "inc-3", "s-1", "rollback")
    assert run.interrupted
    run.close()


def test_what_began_in_this_very_incarnation_is_not_stopped() -> None:
    run = ThreadRun("k")
    stop_what_runs("inc-1")
    assert not run.interrupted
    run.close()
