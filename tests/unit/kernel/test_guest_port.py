"""The guest's end of a port, against a socket that takes and gives little at a time."""

import socket
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from branchpoint_guest.wire import MESSAGE, FrameReader, Incoming, encode, pack_parts
from branchpoint_guestkernel.port import Port

Ends = tuple[Port, socket.socket]


@pytest.fixture
def ends() -> Generator[Ends]:
    """A port of generation 2 and the host's end of it."""
    host, guest = socket.socketpair()
    with host, guest:
        host.settimeout(0)
        yield Port(guest.fileno(), 2), host


def frame(generation: int, *parts: bytes) -> bytes:
    return encode(MESSAGE, generation, pack_parts(parts))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    messages=st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=4), max_size=6),
    step=st.integers(1, 700),
)
def test_what_the_host_sends_arrives_however_it_is_chopped(
    ends: Ends, messages: list[list[bytes]], step: int
) -> None:
    port, host = ends
    before = port.received
    stream = b"".join(frame(2, *message) for message in messages)
    arrived: list[list[bytes]] = []
    for start in range(0, len(stream), step):
        host.sendall(stream[start : start + step])
        arrived += port.read()
    assert arrived == messages
    assert port.received - before == len(messages)


def read_by_host(port: Port, host: socket.socket) -> list[list[bytes]]:
    """Write all that waits, the host reading along; the messages it got, in order."""
    reader, incoming, messages = FrameReader(), Incoming(), list[list[bytes]]()
    while True:
        waited = port.waiting_bytes
        port.write()
        try:
            received = host.recv(1 << 16)
        except BlockingIOError:
            if not waited:
                return messages
            continue
        parts = [incoming.take(frame) for frame in reader.feed(received)]
        messages += [each for each in parts if each is not None]
        assert len(messages) <= port.sent


def test_a_message_larger_than_the_host_takes_is_sent_piece_by_piece(ends: Ends) -> None:
    port, host = ends
    messages = [[b"shell", b"x" * 3_000_000], [b"iopub", b"y"]]
    for message in messages:
        port.put(message)
    assert port.waiting_bytes > 3_000_000
    assert read_by_host(port, host) == messages
    assert (port.sent, port.waiting_bytes) == (2, 0)


def test_a_control_reply_does_not_wait_for_a_large_display_that_is_under_way(ends: Ends) -> None:
    port, host = ends
    display, output, reply = [b"iopub", bytes(3_000_000)], [b"iopub", b"y"], [b"control", b"z"]
    port.put(display)
    port.write()
    port.put(output)
    port.put(reply)
    assert read_by_host(port, host) == [reply, display, output]


def test_frames_of_another_generation_do_not_count(ends: Ends) -> None:
    port, host = ends
    host.sendall(frame(1, b"old") + frame(2, b"new"))
    assert port.read() == [[b"new"]]
    assert port.received == 1


def test_an_absent_host_is_noticed_and_so_is_an_empty_port(ends: Ends) -> None:
    port, host = ends
    assert port.read() == []
    assert not port.absent
    host.close()
    assert port.read() == []
    assert port.absent


def test_a_renewed_port_counts_from_zero(ends: Ends) -> None:
    port, host = ends
    host.sendall(frame(2, b"shell", b"x"))
    port.read()
    port.renew(3)
    assert (port.received, port.sent) == (0, 0)


def test_a_port_renewed_under_its_own_generation_counts_on_and_loses_nothing(ends: Ends) -> None:
    port, host = ends
    first, second = frame(2, b"shell", b"x"), frame(2, b"shell", b"y")
    host.sendall(first + second[:10])
    port.read()
    port.renew(2)
    host.sendall(second[10:])
    assert port.read() == [[b"shell", b"y"]]
    assert port.received == 2
