"""`once` in a machine that is woken in its middle: what it stops, and whose outcome counts."""

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest
from tests.support.once_machine import Caller, OnceMachine
from tests.unit.guest.once_actions import Action, elsewhere

import branchpoint
from branchpoint import UnknownOutcomeError
from branchpoint_vmruntime.ledger import OutcomeState


def test_woken_in_its_middle_it_stops_and_gives_what_the_other_machine_recorded(
    machine: OnceMachine,
) -> None:
    def fork_and_finish_there() -> None:
        number = machine.entries()[0].number
        source = machine.wake("fork", source_lives=True)
        machine.end(source, number, pickle.dumps("receipt of the source"))

    action = Action(elsewhere(fork_and_finish_there))
    assert branchpoint.once("k", action) == "receipt of the source"
    assert (action.begun, action.done) == (1, 0)


def test_woken_in_its_middle_it_waits_for_the_machine_that_lives_on(machine: OnceMachine) -> None:
    source = Queue[Caller]()

    def finish_there() -> None:
        lives_on = source.get()
        while len([each for each in machine.requests if each["step"] == "begin"]) < 2:
            time.sleep(0.001)
        machine.end(lives_on, 1, pickle.dumps("late"))

    finishing = threading.Thread(target=finish_there, daemon=True)
    finishing.start()
    action = Action(elsewhere(lambda: source.put(machine.wake("fork", source_lives=True))))
    assert branchpoint.once("k", action) == "late"
    finishing.join()
    assert action.done == 0


@pytest.mark.parametrize("reason", ["rollback", "reopen", "fork"])
def test_woken_in_its_middle_with_nobody_left_its_outcome_is_unknown(
    machine: OnceMachine, reason: str
) -> None:
    action = Action(elsewhere(lambda: machine.wake(reason)))
    with pytest.raises(UnknownOutcomeError, match="'k' was begun on branch main at") as caught:
        branchpoint.once("k", action, retry=True)
    assert (action.begun, action.done) == (1, 0)
    assert caught.value.key == "k"
    for way in ("retry=True", "branchpoint.accept('k', result)", "%ledger --accept k"):
        assert way in caught.value.hint
    assert machine.states() == [OutcomeState.UNKNOWN]


def test_an_unknown_one_is_run_anew_by_a_retry(machine: OnceMachine) -> None:
    with pytest.raises(UnknownOutcomeError):
        branchpoint.once("k", Action(elsewhere(lambda: machine.wake("rollback"))))
    assert branchpoint.once("k", Action(), retry=True) == "receipt 1"


def test_an_unknown_one_that_is_accepted_has_that_result(machine: OnceMachine) -> None:
    with pytest.raises(UnknownOutcomeError):
        branchpoint.once("k", Action(elsewhere(lambda: machine.wake("rollback"))))
    branchpoint.accept("k", {"id": 7})
    assert branchpoint.once("k", Action()) == {"id": 7}


def test_a_machine_that_is_only_looked_into_stops_nothing(machine: OnceMachine) -> None:
    action = Action(elsewhere(lambda: machine.adopt_alone("peek")))
    assert branchpoint.once("k", action) == "receipt 1"


def test_a_function_that_handles_every_error_gives_nothing_it_did_in_another_machine(
    machine: OnceMachine,
) -> None:
    def stubborn() -> str:
        try:
            Action(elsewhere(lambda: machine.wake("rollback")))()
        except BaseException:
            return "forged"
        return "not stopped"

    with pytest.raises(UnknownOutcomeError):
        branchpoint.once("k", stubborn)


def test_woken_inside_another_both_stop(machine: OnceMachine) -> None:
    action = Action(elsewhere(lambda: machine.wake("rollback")))
    after = list[str]()

    def outer() -> None:
        branchpoint.once("inner", action)
        after.append("the outer function went on")

    with pytest.raises(UnknownOutcomeError, match="'k'"):
        branchpoint.once("k", outer)
    assert (action.begun, action.done, after) == (1, 0, [])
    assert machine.states() == [OutcomeState.UNKNOWN] * 2


def test_a_task_woken_in_its_middle_stops_where_it_waits(machine: OnceMachine) -> None:
    action = Action(elsewhere(lambda: machine.wake("rollback")))

    async def ask() -> None:
        with pytest.raises(UnknownOutcomeError):
            await branchpoint.once("k", action.in_task)
        # What stopped the function is not left over for its caller.
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(ask())
    assert (action.begun, action.done) == (1, 0)


def test_a_task_that_is_ready_to_go_on_takes_no_step_in_another_machine(
    machine: OnceMachine,
) -> None:
    steps = list[str]()

    async def action() -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.call_soon(ready.set_result, None)
        loop.call_soon(machine.wake, "rollback")
        await ready
        steps.append("went on")

    async def ask() -> None:
        with pytest.raises(UnknownOutcomeError):
            await branchpoint.once("k", action)

    asyncio.run(ask())
    assert steps == []


def test_a_function_woken_inside_a_coroutine_stops_both(machine: OnceMachine) -> None:
    action = Action(elsewhere(lambda: machine.wake("rollback")))
    after = list[str]()

    async def outer() -> None:
        branchpoint.once("inner", action)
        after.append("went on")

    async def ask() -> None:
        with pytest.raises(UnknownOutcomeError, match="'k'"):
            await branchpoint.once("k", outer)

    asyncio.run(ask())
    assert (action.done, after) == (0, [])


@contextmanager
def a_process(code: str, tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    """Code in a process of its own, which no hook has told anything."""
    told = f"from branchpoint import waking; waking.IDENTITY = {str(tmp_path / 'identity.json')!r}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", f"{told}\nimport branchpoint, os, time\n{code}"]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as process:
        yield process


def test_of_a_process_that_was_killed_nobody_waits_for_the_outcome(
    machine: OnceMachine, tmp_path: Path
) -> None:
    with a_process("branchpoint.once('k', lambda: os.kill(os.getpid(), 9))", tmp_path):
        pass
    with pytest.raises(UnknownOutcomeError):
        branchpoint.once("k", Action())


@pytest.mark.parametrize(
    ("does", "last_asked"),
    [("while True: time.sleep(0.01)", "begin"), ("branchpoint.checkpoint('c')", "checkpoint")],
)
def test_a_process_without_the_hook_is_stopped_by_guestd(
    machine: OnceMachine, tmp_path: Path, does: str, last_asked: str
) -> None:
    code = f"""
def action():
    {does}
    print('went on')
try:
    branchpoint.once('k', action)
except branchpoint.UnknownOutcomeError as error:
    print(error.key)
"""
    with a_process(code, tmp_path) as process:
        while not any(last_asked in each.values() for each in machine.requests):
            time.sleep(0.01)
        # It has begun as soon as the ledger says so.
        while not machine.entries():
            time.sleep(0.01)
        machine.wake("rollback")
        assert process.communicate(timeout=120)[0] == "k\n"
