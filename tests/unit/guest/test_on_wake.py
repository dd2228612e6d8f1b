"""Who a process is, and what it has called when it wakes as another."""

import json
import threading
from pathlib import Path

import pytest
from tests.support.fake_calls import FakeCalls

import branchpoint
from branchpoint import Identity, waking


def wake(name: str, index: int = 1) -> None:
    """What the hook does when guestd greets it."""
    waking.adopt(name, index, "inc-2", "s-1", "fork")
    waking.run_callbacks()


def test_an_identity_is_that_of_the_last_waking(calls: FakeCalls) -> None:
    before = branchpoint.identity()
    wake("ridge")
    assert before == Identity("main", 0, "inc-1", "s-1", "start")
    assert branchpoint.identity() == Identity("ridge", 1, "inc-2", "s-1", "fork")


def test_a_process_without_the_hook_reads_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"branch": "ridge", "index": 1, "incarnation": "inc-2", "session": "s-1"}
    path = tmp_path / "identity.json"
    path.write_text(json.dumps(facts | {"reason": "fork", "token": "t"}))
    monkeypatch.setattr(waking, "_told", None)
    monkeypatch.setattr(waking, "IDENTITY", str(path))
    assert branchpoint.identity() == Identity("ridge", 1, "inc-2", "s-1", "fork")


def test_callbacks_are_called_in_order_with_the_new_identity(calls: FakeCalls) -> None:
    seen: list[tuple[int, Identity]] = []
    branchpoint.on_wake(lambda who: seen.append((1, who)))
    branchpoint.on_wake(lambda who: seen.append((2, who)))
    wake("ridge")
    waking.wait_for_callbacks()
    assert seen == [(1, branchpoint.identity()), (2, branchpoint.identity())]


def test_on_wake_gives_back_what_it_decorates(calls: FakeCalls) -> None:
    @branchpoint.on_wake
    def named(who: Identity) -> str:
        return who.name

    assert named(Identity("ridge", 1, "", "", "")) == "ridge"


def test_a_callback_that_raises_is_printed_and_the_others_are_called(
    calls: FakeCalls, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    branchpoint.on_wake(lambda _: 1 / 0)
    branchpoint.on_wake(lambda who: seen.append(who.name))
    wake("ridge")
    waking.wait_for_callbacks()
    assert seen == ["ridge"]
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_call_returns_after_the_callbacks(calls: FakeCalls) -> None:
    finish = threading.Event()
    branchpoint.on_wake(lambda _: finish.wait(120))
    wake("ridge")
    calls.woken("fork", 1)
    returned: list[int] = []
    caller = threading.Thread(target=lambda: returned.append(branchpoint.fork(1)))
    caller.start()
    while calls.answers:
        pass
    assert returned == []
    finish.set()
    caller.join()
    assert returned == [1]


def test_a_callback_that_makes_a_call_is_not_kept_waiting(calls: FakeCalls) -> None:
    returned: list[int] = []
    branchpoint.on_wake(lambda _: returned.append(branchpoint.fork(1)))
    calls.woken("fork", 1)
    wake("ridge")
    waking.wait_for_callbacks()
    assert returned == [1]


def test_those_of_the_next_waking_wait_for_those_before(calls: FakeCalls) -> None:
    finish, seen = threading.Event(), list[str]()

    def slow(who: Identity) -> None:
        finish.wait(120)
        seen.append(who.name)

    branchpoint.on_wake(slow)
    wake("ridge")
    wake("forest")
    assert seen == []
    finish.set()
    waking.wait_for_callbacks()
    assert seen == ["ridge", "forest"]


def test_without_a_thread_to_be_had_nobody_waits_for_ever(
    calls: FakeCalls, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    branchpoint.on_wake(lambda who: who.name)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    wake("ridge")
    waking.wait_for_callbacks()
    assert "can't start new thread" in capfd.readouterr().err
