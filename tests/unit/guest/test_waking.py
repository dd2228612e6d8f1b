"""What is made new at a wake: clock, entropy, identity, with the system's calls replaced."""

import fcntl
import os
import socket
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_guest import waking
from branchpoint_guest.waking import Waking

RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207


class SystemCalls:
    """What was asked of the system, in order, and done by nobody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, monotonic_s: float = 0.0) -> None:
        self.clocks: list[tuple[int, float]] = []
        self.controls: list[tuple[int, bytes]] = []
        self.names: list[str] = []
        monkeypatch.setattr(time, "clock_settime", self._set_clock)
        monkeypatch.setattr(time, "monotonic", lambda: monotonic_s)
        monkeypatch.setattr(fcntl, "ioctl", self._ioctl)
        monkeypatch.setattr(socket, "sethostname", self.names.append)

    def _set_clock(self, clock: int, time_s: float) -> None:
        self.clocks.append((clock, time_s))

    def _ioctl(self, _fd: int, request: int, argument: bytes = b"") -> int:
        self.controls.append((request, argument))
        return 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> SystemCalls:
    return SystemCalls(monkeypatch)


@pytest.fixture
def identity_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "identity.json"
    monkeypatch.setattr(waking, "IDENTITY", str(path))
    return path


INSTANTS = st.floats(0, 1e6)
SPANS = st.floats(0, 10)


@given(st.floats(1e9, 3e9), INSTANTS, SPANS, SPANS, st.floats(0, 1))
def test_the_clock_is_off_by_at_most_half_the_time_the_question_took(
    host_time_s: float, asked_s: float, question_s: float, handling_s: float, place: float
) -> None:
    answered_s = asked_s + question_s
    now_s = answered_s + handling_s
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(patch, monotonic_s=now_s)
        Waking.set_clock(host_time_s, asked_s, answered_s)
    [(clock, set_to_s)] = calls.clocks
    assert clock == time.CLOCK_REALTIME
    # The host read its clock somewhere between question and answer; what it says now follows.
    host_now_s = host_time_s + now_s - (asked_s + place * question_s)
    assert abs(set_to_s - host_now_s) <= question_s / 2 + 1e-5


def test_the_time_that_handling_the_answer_took_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = SystemCalls(monkeypatch, monotonic_s=107.0)
    Waking.set_clock(1_800_000_000.0, 100.0, 102.0)
    assert calls.clocks == [(time.CLOCK_REALTIME, 1_800_000_006.0)]


def test_entropy_is_credited_in_full_and_then_the_kernel_reseeds(
    calls: SystemCalls, identity_file: Path
) -> None:
    entropy = bytes(range(32))
    Waking().add_entropy(entropy)
    assert calls.controls == [
        (RNDADDENTROPY, struct.pack("ii", 256, 32) + entropy),
        (RNDRESEEDCRNG, b""),
    ]
    assert identity_file.exists()


def test_the_identity_is_for_every_process_to_read(calls: SystemCalls, identity_file: Path) -> None:
    identity = '{"branch": "ridge_2", "index": 3}'
    Waking().take_identity(identity, "ridge-2")
    assert identity_file.read_text() == identity
    assert identity_file.stat().st_mode & 0o444 == 0o444 & ~_umask()
    assert calls.names == ["ridge-2"]


def test_a_shorter_identity_leaves_nothing_of_a_longer_one(
    calls: SystemCalls, identity_file: Path
) -> None:
    woken = Waking()
    woken.take_identity('{"branch": "a-long-name-of-a-branch"}', "a")
    woken.take_identity('{"branch": "b"}', "b")
    assert identity_file.read_text() == '{"branch": "b"}'
    assert calls.names == ["a", "b"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
