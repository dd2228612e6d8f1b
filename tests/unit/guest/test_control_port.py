"""guestd's end of the control port: whole frames both ways, over a descriptor that never blocks."""

import os
import socket
import struct
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from branchpoint_guest import ports, wire
from branchpoint_guest.ports import ControlPort, find_port

# How long passes until the host comes to a question, and the times it tells then.
Answer = tuple[float, Sequence[float]]
SILENCE: list[float] = []


class Ends(NamedTuple):
    """guestd's port and the host's end of it."""

    port: ControlPort
    host: socket.socket


@pytest.fixture
def ends() -> Generator[Ends]:
    host, guest = socket.socketpair()
    # Small, so that a message does not fit in at once.
    for sock in (host, guest):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with host, guest:
        port = ControlPort(guest.fileno())
        port.generation = 5
        yield Ends(port, host)


def control(**message: object) -> bytes:
    return wire.encode_control(5, message)


def clock(time_s: float) -> bytes:
    return wire.encode(wire.Kind.CLOCK, 5, wire.pack_time(time_s))


def hear(host: socket.socket, count: int) -> list[wire.Frame]:
    """The next frames the host gets."""
    reader, frames = wire.FrameReader(), list[wire.Frame]()
    while len(frames) < count:
        frames += reader.feed(host.recv(1 << 16))
    return frames


def test_a_message_bears_the_generation_and_arrives_whole(ends: Ends) -> None:
    ends.port.send({"op": "booted"})
    [frame] = hear(ends.host, 1)
    assert (frame.generation, wire.decode_control(frame)) == (5, {"op": "booted"})


def test_a_message_larger_than_the_port_takes_is_written_bit_by_bit(ends: Ends) -> None:
    text = "x" * 1_000_000
    heard: list[wire.Frame] = []
    thread = threading.Thread(target=lambda: heard.extend(hear(ends.host, 2)))
    thread.start()
    ends.port.send({"stdout": text})
    ends.port.send({"op": "next"})
    thread.join()
    assert [wire.decode_control(frame) for frame in heard] == [{"stdout": text}, {"op": "next"}]


def test_the_answer_to_a_wake_is_its_fields(ends: Ends) -> None:
    ends.port.send_fields(["7", "c0ffee", "", "12"])
    [frame] = hear(ends.host, 1)
    assert frame.kind == wire.Kind.WAKE
    assert wire.unpack_fields(frame.body) == ["7", "c0ffee", "", "12"]


def test_nothing_to_read_is_no_wait(ends: Ends) -> None:
    assert ends.port.receive_nowait() == []


def test_frames_are_handed_out_once_each_with_its_last_byte(ends: Ends) -> None:
    first, second = control(op="ping"), control(op="freeze")
    ends.host.sendall(first + second[:-1])
    assert [wire.decode_control(frame)["op"] for frame in ends.port.receive_nowait()] == ["ping"]
    ends.host.sendall(second[-1:])
    assert [wire.decode_control(frame)["op"] for frame in ends.port.receive_nowait()] == ["freeze"]
    assert ends.port.receive_nowait() == []


def test_a_host_that_is_away_is_nothing_to_read(ends: Ends) -> None:
    ends.host.sendall(control(op="ping"))
    ends.host.close()
    assert len(ends.port.receive_nowait()) == 1
    assert ends.port.receive_nowait() == []


def test_asking_the_time_gives_the_host_s_between_two_instants(ends: Ends) -> None:
    ends.host.sendall(clock(1_800_000_000.25))
    before = time.monotonic()
    told, asked, answered = ends.port.ask_time(10)
    assert told == 1_800_000_000.25
    assert before <= asked <= answered <= time.monotonic()
    # On a slow host there are more.
    question, *_ = hear(ends.host, 1)
    assert (question.kind, question.generation, question.body) == (wire.Kind.CLOCK, 5, b"")


@dataclass
class GuestClock:
    """The guest's monotonic clock, which only passes when the host lets it."""

    now_s: float = 100.0

    def monotonic(self) -> float:
        """The time it is."""
        return self.now_s


@contextmanager
def answering(ends: Ends, patch: pytest.MonkeyPatch, *answers: Answer) -> Generator[None]:
    """A host that lets that long pass at each question, and then tells those times."""
    passing = GuestClock()
    patch.setattr(ports, "time", passing)
    reader, asked = wire.FrameReader(), list[wire.Frame]()

    def answer() -> None:
        while data := ends.host.recv(1 << 16):
            for question in reader.feed(data):
                passed_s, told = answers[len(asked)]
                asked.append(question)
                passing.now_s += passed_s
                ends.host.sendall(b"".join(clock(time_s) for time_s in told))

    host = threading.Thread(target=answer)
    host.start()
    try:
        yield
    finally:
        with socket.socket(fileno=os.dup(ends.port.fd)) as guest:
            guest.shutdown(socket.SHUT_WR)
        host.join()
    assert [question.kind for question in asked] == [wire.Kind.CLOCK] * len(answers)


def test_a_time_long_under_way_is_asked_for_again_and_the_closest_is_taken(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [(0.3, [1.0]), (0.05, [2.0]), (0.004, [3.0])]
    with answering(ends, monkeypatch, *answers):
        told, asked, answered = ends.port.ask_time(10)
    assert told == 3.0
    assert answered - asked == pytest.approx(0.004)


def test_a_time_that_never_is_close_is_asked_for_no_more_than_five_times(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [(0.6, [1.0]), (0.3, [2.0]), (0.2, [3.0]), (0.08, [4.0]), (0.07, [5.0])]
    with answering(ends, monkeypatch, *answers):
        told, asked, answered = ends.port.ask_time(10)
    assert told == 5.0
    assert answered - asked == pytest.approx(0.07)


def test_no_answer_is_waited_for_longer_than_the_closest_took_nor_taken_for_a_later_one(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (0.1, [1.0]), (0.2, SILENCE), (0.01, [2.0, 3.0])
    with answering(ends, monkeypatch, *answers):
        told, asked, answered = ends.port.ask_time(10)
    assert told == 3.0
    assert answered - asked == pytest.approx(0.01)


def test_a_host_that_falls_silent_after_its_first_answer_has_told_the_time(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(ends, monkeypatch, (0.1, [1.0]), *[(0.2, SILENCE)] * 4):
        assert ends.port.ask_time(10)[0] == 1.0


def test_what_arrives_around_the_time_is_kept_in_order(ends: Ends) -> None:
    ends.host.sendall(control(op="1") + control(op="2") + clock(1.0) + control(op="3"))
    ends.port.ask_time(10)
    kept = [wire.decode_control(frame)["op"] for frame in ends.port.receive_nowait()]
    assert kept == ["1", "2", "3"]


def test_what_arrived_before_the_time_does_not_hide_it(ends: Ends) -> None:
    ends.host.sendall(control(op="1"))
    timer = threading.Timer(0.05, ends.host.sendall, [clock(2.0)])
    timer.start()
    assert ends.port.ask_time(10)[0] == 2.0
    timer.join()
    assert len(ends.port.receive_nowait()) == 1


def test_a_host_that_does_not_say_the_time_is_an_error_and_what_it_said_is_kept(
    ends: Ends,
) -> None:
    ends.host.sendall(control(op="1"))
    with pytest.raises(TimeoutError, match="what time it is"):
        ends.port.ask_time(0.05)
    assert len(ends.port.receive_nowait()) == 1


def test_a_time_that_is_none_is_refused(ends: Ends) -> None:
    ends.host.sendall(wire.encode(wire.Kind.CLOCK, 5, struct.pack("<f", 1.0)))
    with pytest.raises(wire.WireError, match="not a time"):
        ends.port.ask_time(10)


def test_a_port_that_has_no_host_any_more_is_told_by_the_system() -> None:
    host, guest = os.openpty()
    port = ControlPort(guest)
    os.close(host)
    with pytest.raises(OSError, match="Input/output error"):
        port.send({"op": "booted"})
    os.close(guest)


def test_a_port_is_found_by_the_name_the_host_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for device, name in (("vport0p1", "control"), ("vport0p2", "kernel")):
        (tmp_path / device).mkdir()
        (tmp_path / device / "name").write_text(f"{name}\n")
    monkeypatch.setattr(ports, "_PORTS", tmp_path)
    assert find_port("kernel") == Path("/dev/vport0p2")


def test_a_port_that_appears_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_PORTS", tmp_path / "ports")
    (tmp_path / "ports").mkdir()
    made = tmp_path / "made"
    made.mkdir()
    (made / "name").write_text("control\n")
    timer = threading.Timer(0.05, made.rename, [tmp_path / "ports" / "vport0p1"])
    timer.start()
    assert find_port("control", wait_s=120).name == "vport0p1"
    timer.join()


def test_a_port_that_goes_while_it_is_looked_at_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_PORTS", tmp_path)
    # What cannot be read, like the name of a device that is gone.
    (tmp_path / "vport0p1" / "name").mkdir(parents=True)
    (tmp_path / "vport0p2").mkdir()
    (tmp_path / "vport0p2" / "name").write_text("control\n")
    assert find_port("control").name == "vport0p2"
    with pytest.raises(FileNotFoundError, match="jupyter"):
        find_port("jupyter", wait_s=0)


def test_a_port_that_never_appears_is_an_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_PORTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="'control'"):
        find_port("control", wait_s=0.0)


def test_a_time_that_comes_too_late_is_not_taken_for_the_next(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        ends.port.ask_time(0.01)
    ends.host.sendall(clock(1.0) + clock(2.0))
    assert ends.port.ask_time(20)[0] == 2.0


def test_a_late_time_that_was_passed_over_is_not_waited_for_again(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        ends.port.ask_time(0.01)
    ends.host.sendall(clock(1.0) + control(op="ping"))
    assert len(ends.port.receive_nowait()) == 1
    ends.host.sendall(clock(2.0))
    assert ends.port.ask_time(20)[0] == 2.0


def test_a_time_owed_to_an_incarnation_that_is_over_is_not_waited_for(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        ends.port.ask_time(0.01)
    ends.port.generation = 6
    ends.host.sendall(clock(1.0) + wire.encode(wire.Kind.CLOCK, 6, wire.pack_time(2.0)))
    assert ends.port.ask_time(20)[0] == 2.0


def test_text_in_pieces_arrives_as_one_message(ends: Ends) -> None:
    ends.port.send_text(b'{"op": "call", ', bytearray(b'"id": 3'), b"}")
    [frame] = hear(ends.host, 1)
    assert wire.decode_control(frame) == {"op": "call", "id": 3}
