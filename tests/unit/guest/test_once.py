"""`once` against the host's own desk: run at most once, in every future."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.support.once_machine import OnceMachine
from tests.unit.guest.once_actions import Action, raising

import branchpoint
from branchpoint import BranchpointError, UnknownOutcomeError
from branchpoint import calls as calls_of_the_module
from branchpoint_vmruntime.ledger import OutcomeState


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


def test_nothing_is_accepted_that_is_not_in_doubt(machine: OnceMachine) -> None:
    with pytest.raises(BranchpointError, match="no key 'k'"):
        branchpoint.accept("k")


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


def test_outside_a_machine_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(tmp_path / "none.sock"))
    with pytest.raises(BranchpointError, match="does not run in a branchpoint machine"):
        branchpoint.once("k", Action())
