"""Calls out of a real machine, answered by hand: what running code sees of it, in every machine."""

import asyncio
import json
import pickle
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.branch_seam import Branch, GuestCall
from branchpoint_vmruntime.errors import GuestSilentError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.results import RunResult
from branchpoint_vmruntime.session import Session

pytestmark = pytest.mark.vm

TIMEOUT_S = 120.0


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[Session]:
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        await run(session.current, "import branchpoint, time")
        yield session


async def run(branch: Branch, code: str) -> RunResult:
    """Code that is to succeed."""
    result = await branch.run(code, timeout_s=TIMEOUT_S)
    assert result.status == "ok", result
    return result


def running(branch: Branch, code: str) -> asyncio.Task[RunResult]:
    """Code that makes a call."""
    return asyncio.create_task(branch.run(code, timeout_s=TIMEOUT_S))


async def told(branch: Branch, expression: str) -> Any:
    """The value of an expression in a branch, once what runs there is over."""
    result = await run(branch, f"import json; print(json.dumps({expression}))")
    return json.loads(str(result))


async def done(branch: Branch, call: GuestCall, value: Mapping[str, Any]) -> None:
    await branch.calls.answer(call, {"status": "ok", "data": None, "value": value})


async def save(session: Session, label: str) -> None:
    """Do the checkpoint that the current branch asks for next."""
    branch = session.current
    call = await branch.calls.next()
    made = await session.checkpoint(label)
    await done(branch, call, {"label": label, "id": made.id})


@in_a_loop
async def test_a_checkpoint_returns_saved_and_after_a_rollback_restored(home: Home) -> None:
    async with opened(home) as session:
        task = running(session.current, "moment = branchpoint.checkpoint('a')")
        await save(session, "a")
        assert (await task).status == "ok"
        assert await told(session.current, "[moment, moment.label]") == ["saved", "a"]
        await session.rollback("a")
        assert await told(session.current, "[moment, moment.reason]") == ["restored", "rollback"]


@in_a_loop
async def test_a_magic_in_a_loop_ends_its_cell_where_a_machine_wakes_from_it(home: Home) -> None:
    async with opened(home) as session:
        code = "steps = []\nfor i in range(2):\n    %checkpoint step{i}\n    steps.append(i)"
        task = running(session.current, code)
        await save(session, "step0")
        await save(session, "step1")
        assert (await task).status == "ok"
        await session.rollback("step1")
        assert await told(session.current, "steps") == [0]


@in_a_loop
async def test_a_fork_returns_another_index_in_each_machine(home: Home) -> None:
    async with opened(home) as session:
        main = session.current
        await run(main, "woken = []\n@branchpoint.on_wake\ndef note(who): woken.append(who.name)")
        task = running(main, "index = branchpoint.fork(2); seen = list(woken)")
        call = await main.calls.next()
        forks = await session.fork(2, names=["ridge", "forest"])
        await done(main, call, {"index": 0, "names": ["ridge", "forest"]})
        assert (await task).status == "ok"
        found = [await told(branch, "[index, seen[-1:]]") for branch in (main, *forks)]
        assert found == [[0, []], [1, ["ridge"]], [2, ["forest"]]]


@in_a_loop
async def test_a_callback_that_takes_its_time_fails_no_wake(home: Home) -> None:
    async with opened(home) as session:
        await run(session.current, "branchpoint.on_wake(lambda who: time.sleep(3600))")
        first = await session.checkpoint("first")
        for _ in range(2):
            await session.rollback(first, safety=False)
        assert await told(session.current, "branchpoint.identity().reason") == "rollback"


@in_a_loop
async def test_an_interrupt_ends_the_wait_and_the_call_is_gone(home: Home) -> None:
    async with opened(home) as session:
        branch = session.current
        task = running(branch, "branchpoint.checkpoint('a')")
        call = await branch.calls.next()
        await branch.interrupt()
        assert (await task).error_name == "KeyboardInterrupt"
        async with asyncio.timeout(TIMEOUT_S):
            await call.gone.wait()


@in_a_loop
async def test_explored_options_come_home_from_forks_of_that_moment(home: Home) -> None:
    async with opened(home) as session:
        main = session.current
        await run(main, "base = 10\ndef add(option): return base + 1 / option")
        task = running(main, "results = branchpoint.explore(add, [1, 0])")
        call = await main.calls.next()
        assert call.request == {"do": "explore", "count": 2, "at_once": None}
        results: list[dict[str, Any]] = []
        for fork in await session.fork(2):
            result = await fork.calls.next()
            value, error, _ = pickle.loads(b64decode(result.request["payload"]))
            results.append({"payload": result.request["payload"], "failure": "", "output": ""})
            results[-1] |= {"branch": fork.name, "awake_ms": 1.0, "run_ms": 2.0}
            results[-1] |= {"own_bytes": 3, "shared_bytes": 4}
            assert (value, type(error)) in [(11.0, type(None)), (None, ZeroDivisionError)]
        await done(main, call, {"results": results, "total_ms": 5.0})
        assert (await task).status == "ok"
        expression = "[results[0].value, repr(results[1].error), base]"
        assert await told(main, expression) == [11.0, "ZeroDivisionError('division by zero')", 10]


@in_a_loop
async def test_a_shell_saves_and_is_told_where_it_was_restored(home: Home) -> None:
    async with opened(home) as session:
        code = (
            "import subprocess as s\ndef sh(x): return s.run(x, shell=True, text=True, stdout=-1)"
        )
        await run(session.current, code)
        task = running(session.current, "out = sh('branchpoint checkpoint a').stdout")
        await save(session, "a")
        assert (await task).status == "ok"
        assert await told(session.current, "out") == "saved\n"
        await session.rollback("a")
        assert await told(session.current, "out") == "restored\n"
        who = json.loads(str(await run(session.current, "!branchpoint identity")))
        assert (who["name"], who["reason"]) == ("main", "rollback")


@in_a_loop
async def test_a_machine_that_is_looked_into_goes_on_waiting(home: Home) -> None:
    async with opened(home) as session:
        task = running(session.current, "branchpoint.checkpoint('a')")
        await save(session, "a")
        await task
        async with session.peek(session.find("a")) as peeked:
            who = await peeked.execute(["branchpoint", "identity"], timeout_s=TIMEOUT_S)
            assert json.loads(who.stdout)["reason"] == "peek"
            look = ["grep", "-c", "calls.sock", "/proc/net/unix"]
            connections = await peeked.execute(look, timeout_s=TIMEOUT_S)
            # guestd's own, and that of the one who waits.
            assert int(connections.stdout) == 2


@in_a_loop
async def test_variables_are_told_and_one_that_hangs_holds_up_no_wake(home: Home) -> None:
    async with opened(home) as session:
        await run(session.current, "numbers = [1, 2]")
        told_of = await session.current.variables(repr_limit=80, timeout_s=TIMEOUT_S)
        assert told_of is not None
        by_name = {each["name"]: each for each in told_of}
        assert (by_name["numbers"]["repr"], by_name["numbers"]["exact"]) == ("[1, 2]", True)
        hang = "class Hang:\n    def __repr__(self): time.sleep(3600)\nhang = Hang()"
        await run(session.current, hang)
        with pytest.raises(GuestSilentError):
            await session.current.variables(repr_limit=80, timeout_s=1.0)
        saved = await session.checkpoint("a")
        await session.rollback(saved)
        assert await told(session.current, "numbers") == [1, 2]
