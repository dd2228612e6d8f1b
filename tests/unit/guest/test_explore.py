"""`explore`, in the parent and in a fork: what goes home, and what is made of it."""

import base64
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_calls import FakeCalls

import branchpoint
from branchpoint import BranchpointError, exploring
from branchpoint.exploring import Result, Results


class Ended(BaseException):
    """The host has ended the fork."""


@pytest.fixture(autouse=True)
def host_ends_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_seconds: float) -> None:
        raise Ended

    monkeypatch.setattr(exploring.time, "sleep", end)


class AwkwardError(Exception):
    """Can be pickled, and not taken out again."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def reciprocal(option: float) -> float:
    """Raises for nothing."""
    return 1 / option


def awkward(option: float) -> float:
    """Raises what cannot come home."""
    raise AwkwardError(3, "no")


def sent_home(calls: FakeCalls, function: Callable[[Any], Any], option: object) -> str:
    """The payload of the fork that tries an option, the second of three."""
    calls.woken("fork", 2)
    calls.done()
    with pytest.raises(Ended):
        branchpoint.explore(function, [None, option, None])
    asked, result = calls.requests[-2:]
    assert asked == {"do": "explore", "count": 3, "at_once": None}
    assert result["do"] == "result"
    return result["payload"]


def fact(payload: str | None, failure: str = "") -> dict[str, Any]:
    """What the host says of one option."""
    figures = {"awake_ms": 100.0, "run_ms": 2500.0, "own_bytes": 9_000_000, "shared_bytes": 4}
    return {"branch": "b", "payload": payload, "failure": failure, "output": "o\n"} | figures


def explored(calls: FakeCalls, *facts: dict[str, Any]) -> Results[Any, Any]:
    """The results in the parent, of options numbered from 1."""
    calls.done({"results": facts, "total_ms": 4200.0})
    return branchpoint.explore(reciprocal, range(1, len(facts) + 1), at_once=2)


def the_result(
    calls: FakeCalls, function: Callable[[Any], Any], option: object
) -> Result[Any, Any]:
    """What comes home of one option."""
    [result] = explored(calls, fact(sent_home(calls, function, option)))
    return result


def test_a_fork_sends_home_what_the_function_returned_for_its_option(calls: FakeCalls) -> None:
    assert the_result(calls, reciprocal, 4).value == 0.25


def test_results_come_in_the_order_of_the_options_with_their_figures(calls: FakeCalls) -> None:
    facts = [fact(sent_home(calls, reciprocal, option)) for option in (1, 2)]
    results = explored(calls, *facts)
    assert [(result.option, result.value) for result in results] == [(1, 1.0), (2, 0.5)]
    assert results.values == [1.0, 0.5]
    assert (results[0].output, results[0].branch, results[0].own_bytes) == ("o\n", "b", 9_000_000)
    assert results.total_ms == 4200.0
    assert calls.requests[-1]["at_once"] == 2


def test_an_exception_keeps_its_type_and_arguments_and_tells_where_it_was(calls: FakeCalls) -> None:
    error = the_result(calls, reciprocal, 0).error
    assert isinstance(error, ZeroDivisionError)
    assert error.args == ("division by zero",)
    assert "return 1 / option" in error.__notes__[0]
    assert "exploring.py" not in error.__notes__[0]


def test_a_value_that_did_not_come_raises_what_the_function_raised(calls: FakeCalls) -> None:
    with pytest.raises(ZeroDivisionError):
        _ = the_result(calls, reciprocal, 0).value


def test_an_exception_that_cannot_be_taken_out_again_is_told_in_words(calls: FakeCalls) -> None:
    error = the_result(calls, awkward, 1).error
    assert isinstance(error, BranchpointError)
    assert str(error) == "AwkwardError: no"
    assert "raise AwkwardError" in error.__notes__[0]


def test_an_exit_in_a_fork_comes_home_like_any_other(calls: FakeCalls) -> None:
    error = the_result(calls, lambda _: exec("raise SystemExit(3)"), 1).error
    assert isinstance(error, SystemExit)


def test_a_result_that_cannot_be_pickled_is_an_error_in_words(calls: FakeCalls) -> None:
    error = the_result(calls, lambda option: lambda: option, 1).error
    assert isinstance(error, BranchpointError)
    assert "a function, cannot be brought home" in str(error)


def test_a_payload_that_is_refused_is_followed_by_the_reason(calls: FakeCalls) -> None:
    calls.woken("fork", 1)
    calls.refused("a call may not be over 64 MB")
    calls.done()
    with pytest.raises(Ended):
        branchpoint.explore(reciprocal, [1])
    _, error, _ = pickle.loads(base64.b64decode(calls.requests[-1]["payload"]))
    assert "may not be over 64 MB" in str(error)


def test_a_fork_that_died_is_an_error_of_its_option_alone(calls: FakeCalls) -> None:
    good = fact(sent_home(calls, reciprocal, 2))
    results = explored(calls, fact(None, "its machine has ended"), good)
    assert str(results[0].error) == "its machine has ended"
    assert results[1].value == 0.5


def test_a_payload_that_makes_no_sense_is_an_error_of_its_option(calls: FakeCalls) -> None:
    [result] = explored(calls, fact(base64.b64encode(b"junk").decode()))
    assert "cannot be taken out" in str(result.error)


def test_output_is_flushed_before_the_result_goes_home(
    calls: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_at_flush: list[int] = []

    class Stream:
        def flush(self) -> None:
            asked_at_flush.append(len(calls.requests))

    monkeypatch.setattr("sys.stdout", Stream())
    sent_home(calls, reciprocal, 1)
    assert 1 in asked_at_flush


def test_without_options_nobody_is_asked(calls: FakeCalls) -> None:
    assert list(branchpoint.explore(reciprocal, [])) == []
    assert calls.requests == []


def test_a_machine_woken_from_the_middle_of_it_raises(calls: FakeCalls) -> None:
    calls.woken("rollback", 1)
    with pytest.raises(BranchpointError, match="explore was under way"):
        branchpoint.explore(reciprocal, [1])


def test_the_table_shows_values_and_failures_and_escapes_them(calls: FakeCalls) -> None:
    payload = sent_home(calls, lambda _: "<b>", 1)
    shown = explored(calls, fact(payload), fact(None, "died"))._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "&lt;b&gt;" in shown
    assert "BranchpointError: died" in shown
    assert "2.50 s" in shown
    assert "9 MB" in shown


def test_a_value_whose_repr_raises_or_is_endless_still_has_a_row(calls: FakeCalls) -> None:
    payload = base64.b64encode(pickle.dumps(("x" * 100_000, None, ""))).decode()
    results = explored(calls, fact(payload), fact(payload))
    assert len(repr(results)) < 2000
