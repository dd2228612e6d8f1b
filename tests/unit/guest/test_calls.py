"""The desk that takes in calls: never waits, loses none, tells of those who have gone."""

import json
import select
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from branchpoint_guest import calls
from branchpoint_guest.calls import Calls

CHECKPOINT = {"do": "magic", "name": "checkpoint", "line": "a"}


class Desk:
    """A desk, what it tells the host, and processes that call."""

    def __init__(self, address: Path) -> None:
        self.told: list[dict[str, Any]] = []
        self.address = str(address)
        self.calls = Calls(self.address, self._hear)
        self._callers: list[socket.socket] = []

    def _hear(self, *pieces: bytes | bytearray) -> None:
        self.told.append(json.loads(b"".join(pieces)))

    def caller(self) -> socket.socket:
        """Another process that has connected."""
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(120)
        caller.connect(self.address)
        self._callers.append(caller)
        self.calls.serve()
        return caller

    def call(self, request: object = CHECKPOINT) -> socket.socket:
        """A call, taken in."""
        caller = self.caller()
        self.send(caller, request)
        return caller

    def send(self, caller: socket.socket, request: object) -> None:
        """Another call over the same connection."""
        caller.sendall(json.dumps(request).encode() + b"\n")
        self.calls.serve()

    def close(self) -> None:
        """Hang up everywhere."""
        for caller in self._callers:
            caller.close()
        self.calls.close()


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    desk = Desk(tmp_path / "calls.sock")
    yield desk
    desk.close()


def heard(caller: socket.socket) -> dict[str, Any]:
    """The next answer a caller gets."""
    with caller.makefile("rb") as lines:
        return json.loads(lines.readline())


def test_a_call_is_told_as_it_was_made(desk: Desk) -> None:
    desk.call({**CHECKPOINT, "line": "ü \ud800 '\n'"})
    assert desk.told == [
        {"op": "call", "id": 1, "request": {**CHECKPOINT, "line": "ü \ud800 '\n'"}}
    ]


def test_each_caller_gets_its_own_answer(desk: Desk) -> None:
    first, second = desk.call(), desk.call()
    desk.calls.answer(2, {"status": "ok", "value": {"label": "b"}})
    desk.calls.answer(1, {"status": "ok", "value": {"label": "a"}})
    assert heard(first)["value"] == {"label": "a"}
    assert heard(second)["value"] == {"label": "b"}


def test_half_a_call_is_no_call(desk: Desk) -> None:
    caller = desk.caller()
    caller.sendall(b'{"do": "mag')
    desk.calls.serve()
    assert desk.told == []
    caller.sendall(b'ic"}\n')
    desk.calls.serve()
    assert desk.told[0]["request"] == {"do": "magic"}


def test_a_second_call_over_a_connection_waits_for_the_answer_to_the_first(desk: Desk) -> None:
    caller = desk.call()
    desk.send(caller, {"do": "next"})
    assert len(desk.told) == 1
    desk.calls.answer(1, {"status": "ok"})
    desk.calls.serve()
    assert desk.told[1:] == [{"op": "call", "id": 2, "request": {"do": "next"}}]


def test_a_caller_that_hangs_up_is_gone_and_its_answer_goes_nowhere(desk: Desk) -> None:
    desk.call().close()
    desk.calls.serve()
    assert desk.told[1:] == [{"op": "call-gone", "id": 1}]
    desk.calls.answer(1, {"status": "ok"})


def test_a_caller_that_hangs_up_without_a_call_is_no_news(desk: Desk) -> None:
    desk.caller().close()
    desk.calls.serve()
    assert desk.told == []


def test_a_caller_that_only_says_no_more_still_gets_its_answer(desk: Desk) -> None:
    caller = desk.call()
    caller.shutdown(socket.SHUT_WR)
    desk.calls.serve()
    desk.calls.answer(1, {"status": "ok"})
    assert heard(caller) == {"status": "ok"}
    desk.calls.serve()
    assert caller.recv(1) == b""
    assert len(desk.told) == 1


@pytest.mark.parametrize(
    "line",
    [b"no json", b"[]", b'"text"', b"\xff", b'{"do": {"deep": 1}}', b"[" * 100_000, b""],
    ids=["text", "list", "string", "bytes", "nested", "deep", "empty"],
)
def test_what_is_no_call_is_refused_in_words_and_the_next_is_taken(desk: Desk, line: bytes) -> None:
    caller = desk.caller()
    caller.sendall(line + b"\n")
    desk.calls.serve()
    assert heard(caller)["ename"] == "UsageError"
    desk.send(caller, CHECKPOINT)
    assert [told["request"] for told in desk.told] == [CHECKPOINT]


def test_a_call_over_the_limit_is_refused_and_its_connection_closed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.calls, "_limit", 1 << 20)
    caller = desk.caller()
    for _ in range(17):
        caller.send(b"x" * 65536)
        desk.calls.serve()
    assert "may not be over 1 MB" in heard(caller)["evalue"]
    assert caller.recv(1) == b""
    assert desk.told == []


def test_a_large_call_arrives_whole(desk: Desk) -> None:
    caller, payload = desk.caller(), "x" * 3_000_000
    data = memoryview(json.dumps({"do": "result", "payload": payload}).encode() + b"\n")
    caller.setblocking(False)  # noqa: FBT003
    while data:
        data = data[caller.send(data) :]
        desk.calls.serve()
    while not desk.told:
        desk.calls.serve()
    assert desk.told[0]["request"]["payload"] == payload


def test_an_answer_that_nobody_reads_holds_nobody_up(desk: Desk) -> None:
    slow = desk.call()
    answer = {"status": "ok", "data": {"text/plain": "x" * 3_000_000}}
    desk.calls.answer(1, answer)
    quick = desk.call()
    desk.calls.answer(2, {"status": "ok"})
    assert heard(quick) == {"status": "ok"}
    received = bytearray()
    while not received.endswith(b"\n"):
        received += slow.recv(1 << 16)
        desk.calls.serve()
    assert json.loads(received) == answer


def test_more_callers_than_there_is_room_for_are_refused_in_words(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_CALLERS", 2)
    first = desk.call()
    desk.caller()
    assert "at once" in heard(desk.caller())["evalue"]
    desk.calls.answer(1, {"status": "ok"})
    assert heard(first) == {"status": "ok"}


def test_all_who_wait_are_told_when_the_machine_wakes(desk: Desk) -> None:
    callers = [desk.call(), desk.call()]
    desk.calls.wake("fork", "inc-2", "ridge", "3", "s-1")
    woken = {"status": "woken", "reason": "fork", "branch": "ridge"}
    woken |= {"index": 3, "incarnation": "inc-2", "session": "s-1"}
    assert [heard(caller) for caller in callers] == [woken, woken]


def test_an_answer_to_a_call_that_was_woken_goes_nowhere(desk: Desk) -> None:
    caller = desk.call()
    desk.calls.wake("fork", "inc-2", "ridge", "3", "s-1")
    assert heard(caller)["status"] == "woken"
    desk.calls.answer(1, {"status": "ok"})
    desk.send(caller, CHECKPOINT)
    desk.calls.answer(2, {"status": "error"})
    assert heard(caller) == {"status": "error"}


def test_a_machine_that_is_only_looked_into_keeps_its_callers_waiting(desk: Desk) -> None:
    caller = desk.call()
    desk.calls.wake("peek", "inc-2", "peek", "0", "s-1")
    caller.setblocking(False)  # noqa: FBT003
    with pytest.raises(BlockingIOError):
        caller.recv(1)


def test_while_nothing_is_to_be_done_the_desk_is_not_ready(desk: Desk) -> None:
    caller = desk.call()
    caller.shutdown(socket.SHUT_WR)
    desk.calls.serve()
    assert select.select([desk.calls], [], [], 0)[0] == []
    caller.close()
    assert select.select([desk.calls], [], [], 0)[0] == [desk.calls]
