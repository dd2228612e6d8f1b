"""The functions of the module `branchpoint`: what they ask, and what they return where."""

import pickle
import shlex
from collections.abc import Callable

import pytest
from tests.support.fake_calls import FakeCalls

import branchpoint
from branchpoint import BranchpointError, Moment


def test_a_checkpoint_that_was_saved_says_so_and_names_itself(calls: FakeCalls) -> None:
    calls.done({"label": "a", "id": "c0ffee"})
    moment = branchpoint.checkpoint("a")
    assert (moment, moment.restored) == ("saved", False)
    assert (moment.label, moment.id, moment.branch, moment.reason) == ("a", "c0ffee", "main", "")


def test_a_checkpoint_that_a_machine_wakes_from_says_so(calls: FakeCalls) -> None:
    calls.woken("rollback")
    moment = branchpoint.checkpoint("a")
    assert (moment, moment.restored) == ("restored", True)
    assert (moment.label, moment.branch, moment.reason) == ("a", "ridge", "rollback")


def test_a_moment_survives_being_pickled() -> None:
    moment = Moment("saved", label="a", id="c0ffee", branch="main")
    again = pickle.loads(pickle.dumps(moment))
    assert (again, vars(again)) == (moment, vars(moment))


@pytest.mark.parametrize("note", ["x y", "it's # here", "--flag", '"'])
def test_a_note_reaches_the_magic_as_one_word(calls: FakeCalls, note: str) -> None:
    calls.done({"label": "a", "id": "c0ffee"})
    branchpoint.checkpoint("a", note=note)
    [request] = calls.requests
    assert (request["do"], request["name"], request["by"]) == ("magic", "checkpoint", "function")
    assert shlex.split(request["line"]) == ["a", f"--note={note}"]


def test_a_fork_returns_zero_in_the_parent(calls: FakeCalls) -> None:
    calls.done({"index": 0, "names": ["ridge", "forest"]})
    assert branchpoint.fork(2, names=["ridge", "forest"], same_random=True) == 0
    assert calls.requests[0]["line"] == "2 --names=ridge,forest --same-random"


@pytest.mark.parametrize("reason", ["fork", "rollback"])
def test_a_fork_returns_its_index_in_what_woke_from_it(calls: FakeCalls, reason: str) -> None:
    calls.woken(reason, 2)
    assert branchpoint.fork(2) == 2


def test_a_rollback_names_a_moment_by_its_id(calls: FakeCalls) -> None:
    calls.refused("no")
    with pytest.raises(BranchpointError, match=r"^no$"):
        branchpoint.rollback(Moment("saved", label="a", id="c0ffee"), safety=False)
    assert calls.requests[0]["line"] == "c0ffee --no-safety"


def test_a_rollback_can_ask_that_the_cells_behind_it_run(calls: FakeCalls) -> None:
    calls.refused("no")
    with pytest.raises(BranchpointError):
        branchpoint.rollback("a", keep_queue=True)
    assert calls.requests[0]["line"] == "a --keep-queue"


def test_a_moment_without_a_name_cannot_be_gone_back_to(calls: FakeCalls) -> None:
    with pytest.raises(BranchpointError, match="without a label"):
        branchpoint.rollback(Moment("restored"))
    assert calls.requests == []


def test_a_rollback_raises_where_its_safety_checkpoint_wakes(calls: FakeCalls) -> None:
    calls.woken("rollback")
    with pytest.raises(BranchpointError, match="woken by rollback"):
        branchpoint.rollback("a")


def test_a_refusal_carries_its_hint_and_its_kind(calls: FakeCalls) -> None:
    calls.refused("the disk is full", "free some space", kind="CheckpointError")
    with pytest.raises(BranchpointError, match="the disk is full") as caught:
        branchpoint.checkpoint()
    assert (caught.value.hint, caught.value.kind) == ("free some space", "CheckpointError")
    assert caught.value.__notes__ == ["Hint: free some space"]


def test_a_call_that_is_cut_off_is_an_error_in_words(calls: FakeCalls) -> None:
    with pytest.raises(BranchpointError, match="cut off"):
        branchpoint.checkpoint()


def test_what_was_printed_is_flushed_before_the_call(
    calls: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed_after: list[int] = []

    class Stream:
        def flush(self) -> None:
            flushed_after.append(len(calls.requests))

    monkeypatch.setattr("sys.stdout", Stream())
    calls.done({"label": "a", "id": "c0ffee"})
    branchpoint.checkpoint()
    assert flushed_after == [0]


@pytest.mark.parametrize(
    "call",
    [
        branchpoint.checkpoint,
        branchpoint.rollback,
        branchpoint.identity,
        lambda: branchpoint.fork(2),
        lambda: branchpoint.explore(print, [1]),
        lambda: branchpoint.on_wake(print),
    ],
    ids=["checkpoint", "rollback", "identity", "fork", "explore", "on_wake"],
)
def test_outside_a_machine_every_function_says_so(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchpoint.waking._told", None)
    monkeypatch.setenv("BRANCHPOINT_CALLS_SOCKET", "/nowhere")
    with pytest.raises(BranchpointError, match=r"branchpoint machine|notebook's Python kernel"):
        call()


def test_ipython_shows_a_refusal_in_words_under_the_persons_own_line() -> None:
    def of_the_persons_own() -> None:
        branchpoint.checkpoint("a")

    with pytest.raises(BranchpointError) as refused:
        of_the_persons_own()
    shown = "\n".join(refused.value._render_traceback_())  # pyright: ignore[reportPrivateUsage]
    assert 'branchpoint.checkpoint("a")' in shown
    assert shown.endswith("choose the kernel Python 3 (microVM) for this notebook")
    assert "calls.py" not in shown
