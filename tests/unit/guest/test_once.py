"""`once` against the host's own desk: run at most once, in every future."""

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.once_machine import OnceMachine

import branchpoint
from branchpoint import BranchpointError, UnknownOutcomeError, interruption, waking
from branchpoint import calls as calls_of_the_module
from branchpoint_vmruntime.ledger import OutcomeState


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[OnceMachine]:
    """A machine around the test."""
    address = tmp_path / "calls.sock"
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(address))
    monkeypatch.setattr(waking, "_told", None)
    monkeypatch.setattr(waking, "_callbacks", [])
    identity = tmp_path / "identity.json"
    with OnceMachine(address, tmp_path / "ledger.db", identity) as made:
        yield made
    assert not waking.to_stop
    assert not interruption.is_inside_run()


class Action:
    """Something done outside, that counts how often it is. `meanwhile` happens in its middle."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.begun = 0
        self.done = 0
        self._meanwhile = meanwhile

    def __call__(self) -> str:
        self.begun += 1
        self._meanwhile()
        self.done += 1
        return f"receipt {self.done}"

    async def in_task(self) -> str:
        """The same as a coroutine."""
        self.begun += 1
        await asyncio.sleep(0)
        self._meanwhile()
        await asyncio.sleep(30)
        self.done += 1
        return f"receipt {self.done}"


def elsewhere(happens: Callable[[], object]) -> Callable[[], None]:
    """In the middle of an action: something happens in another thread, as a waking does."""

    def meanwhile() -> None:
        other = threading.Thread(target=happens)
        other.start()
        other.join()

    return meanwhile


def raising(error: BaseException) -> Callable[[], None]:
    """A function that raises."""

    def function() -> None:
        raise error

    return function


def test_the_first_call_runs_it_and_later_ones_get_its_result(machine: OnceMachine) -> None:
    action = Action()
    assert [branchpoint.once("k", action) for _ in range(3)] == ["receipt 1"] * 3
    assert action.begun == 1
    assert machine.states() == [OutcomeState.DONE]


def test_after_a_rollback_the_result_is_given_again(machine: OnceMachine) -> None:
    action = Action()
    branchpoint.once("k", action)
    machine.wake("rollback")
    assert branchpoint.once("k", action) == "receipt 1"
    assert action.begun == 1


def test_what_it_raised_is_raised_again_with_a_word_of_it(machine: OnceMachine) -> None:
    with pytest.raises(KeyError, match="first"):
        branchpoint.once("k", raising(KeyError("first")))
    with pytest.raises(KeyError, match="first") as caught:
        branchpoint.once("k", Action())
    assert "retry=True" in caught.value.__notes__[-1]


def test_a_retry_runs_what_raised_anew(machine: OnceMachine) -> None:
    with pytest.raises(KeyError):
        branchpoint.once("k", raising(KeyError("first")))
    assert branchpoint.once("k", Action(), retry=True) == "receipt 1"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupted_function_has_failed_and_interrupts_nobody_else(
    machine: OnceMachine, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        branchpoint.once("k", raising(error))
    assert machine.states() == [OutcomeState.FAILED]
    with pytest.raises(BranchpointError, match=type(error).__name__):
        branchpoint.once("k", Action())


class StubbornError(Exception):
    """Can be pickled, and not taken out again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def test_what_cannot_be_pickled_is_raised_again_in_words(machine: OnceMachine) -> None:
    with pytest.raises(StubbornError):
        branchpoint.once("k", raising(StubbornError("a", "b")))
    with pytest.raises(BranchpointError, match="StubbornError: a b"):
        branchpoint.once("k", Action())


def test_a_result_that_cannot_be_pickled_is_for_the_first_alone(machine: OnceMachine) -> None:
    lock = threading.Lock()
    assert branchpoint.once("k", lambda: lock) is lock
    with pytest.raises(BranchpointError, match="has taken effect, and its result was not kept"):
        branchpoint.once("k", Action())
    assert machine.states() == [OutcomeState.DONE]


def test_a_result_that_the_host_cannot_take_is_for_the_first_alone(machine: OnceMachine) -> None:
    machine.refuse_ends = 1
    assert branchpoint.once("k", Action()) == "receipt 1"
    with pytest.raises(BranchpointError, match="not kept"):
        branchpoint.once("k", Action())


def test_an_outcome_that_cannot_be_recorded_is_said_and_is_unknown_later(
    machine: OnceMachine,
) -> None:
    machine.refuse_ends = 2
    with pytest.raises(BranchpointError, match="could not be recorded: the disk is full"):
        branchpoint.once("k", Action())
    with pytest.raises(UnknownOutcomeError):
        branchpoint.once("k", Action())


def test_what_is_on_record_and_cannot_be_read_is_said(machine: OnceMachine) -> None:
    machine.end(machine.who, machine.begin(machine.who, "k").number, b"cno_such_module\nx\n.")
    with pytest.raises(BranchpointError, match="cannot be read here: ModuleNotFoundError"):
        branchpoint.once("k", Action())


def test_a_function_that_gives_a_coroutine_is_refused(machine: OnceMachine) -> None:
    action = Action()
    with pytest.raises(BranchpointError, match="returned a coroutine"):
        branchpoint.once("k", lambda: action.in_task())
    assert action.begun == 0


def test_other_keys_may_be_used_inside(machine: OnceMachine) -> None:
    def outer() -> str:
        return branchpoint.once("inner", Action())

    assert branchpoint.once("k", outer) == "receipt 1"


def test_the_same_key_inside_is_refused(machine: OnceMachine) -> None:
    def outer() -> str:
        return branchpoint.once("other", lambda: branchpoint.once("k", Action()))

    with pytest.raises(BranchpointError, match="under way in the very function that asks"):
        branchpoint.once("k", outer)


def test_exploring_inside_is_refused(machine: OnceMachine) -> None:
    with pytest.raises(BranchpointError, match="inside once"):
        branchpoint.once("k", lambda: branchpoint.explore(str, [1]))


def test_a_key_that_is_none_is_refused(machine: OnceMachine) -> None:
    with pytest.raises(BranchpointError, match="1 to"):
        branchpoint.once("", Action())


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
    sources = list[object]()

    def finish_there() -> None:
        while len([each for each in machine.requests if each["step"] == "begin"]) < 2:
            time.sleep(0.001)
        machine.end(sources[0], 1, pickle.dumps("late"))  # pyright: ignore[reportArgumentType]

    finishing = threading.Thread(target=finish_there)
    finishing.start()
    action = Action(elsewhere(lambda: sources.append(machine.wake("fork", source_lives=True))))
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


def test_nothing_is_accepted_that_is_not_in_doubt(machine: OnceMachine) -> None:
    with pytest.raises(BranchpointError, match="no key 'k'"):
        branchpoint.accept("k")


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


def test_a_coroutine_function_is_awaited_once(machine: OnceMachine) -> None:
    ran = list[int]()

    async def action() -> int:
        await asyncio.sleep(0)
        ran.append(1)
        return 7

    async def twice() -> list[int]:
        return [await branchpoint.once("k", action) for _ in range(2)]

    assert asyncio.run(twice()) == [7, 7]
    assert ran == [1]


def test_two_tasks_share_one_run(machine: OnceMachine) -> None:
    ran = list[int]()

    async def action() -> int:
        await asyncio.sleep(0.01)
        ran.append(1)
        return 7

    async def both() -> tuple[int, int]:
        return await asyncio.gather(branchpoint.once("k", action), branchpoint.once("k", action))

    assert list(asyncio.run(both())) == [7, 7]
    assert ran == [1]


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


def test_a_task_that_is_cancelled_has_failed(machine: OnceMachine) -> None:
    async def ask() -> None:
        begun = asyncio.Event()
        asking = asyncio.ensure_future(branchpoint.once("k", Action(begun.set).in_task))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask())
    assert machine.states() == [OutcomeState.FAILED]


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
        assert process.communicate(timeout=30)[0] == "k\n"


def test_outside_a_machine_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(tmp_path / "none.sock"))
    with pytest.raises(BranchpointError, match="does not run in a branchpoint machine"):
        branchpoint.once("k", Action())
