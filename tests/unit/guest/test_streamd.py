"""streamd in a thread: what it makes of streams for the programs beside it, at rest and woken."""

import errno
import os
import socket
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass

import pytest
from tests.support.streams_host import StreamsHost

from branchpoint_guest import mux, stream_handlers
from branchpoint_guest.kernel_process import LineSocket
from branchpoint_guest.stream_handlers import GuestStream
from branchpoint_guest.streamd import main

PATIENCE_S = 120.0
CUT_OFF = (ConnectionResetError, BrokenPipeError)
BIG = bytes(range(256)) * 8192


@dataclass
class Lone:
    """streamd, the host's end of its port and guestd's of its orders."""

    host: StreamsHost
    orders: LineSocket
    proxy: tuple[str, int]

    def program(self) -> socket.socket:
        """A program that has connected to the proxy."""
        return socket.create_connection(self.proxy, timeout=PATIENCE_S)

    def drain(self, expected: int | None = None) -> int:
        """Bring it to rest; how many frames it says it has sent."""
        count = self.host.sent if expected is None else expected
        answer = self.orders.ask_line(f"drain {count} 1", "drained-1", PATIENCE_S)
        assert answer is not None
        return int(answer)

    def resume(self, generation: int) -> None:
        """Let it go on."""
        self.orders.send_line(f"resume {generation}")


@pytest.fixture
def lone() -> Generator[Lone]:
    host, port = socket.socketpair()
    ours, theirs = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = listener.getsockname()
    fds = [str(sock.detach()) for sock in (port, theirs, listener)]
    before = threading.enumerate()
    thread = threading.Thread(target=main, args=(fds,))
    thread.start()
    yield Lone(StreamsHost(host), LineSocket(ours), proxy)
    ours.close()
    thread.join(PATIENCE_S)
    host.close()
    os.close(int(fds[0]))
    os.close(int(fds[1]))
    assert not thread.is_alive()
    for handler in set(threading.enumerate()) - set(before):
        handler.join(PATIENCE_S)


@pytest.fixture
def server() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(1 << 20), b""))


def test_who_connects_to_the_proxy_has_a_stream_to_the_host(lone: Lone) -> None:
    with lone.program() as program:
        program.sendall(b"hello")
        number = lone.host.accepted()
        lone.host.until(lambda: lone.host.data[number] == b"hello")
        assert lone.host.events[0].texts == ("egress",)
        lone.host.write(number, b"and back", finish=True)
        assert read_all(program) == b"and back"


def test_the_end_of_what_a_program_sends_reaches_the_host_and_the_answer_still_comes(
    lone: Lone,
) -> None:
    with lone.program() as program:
        program.sendall(b"all")
        program.shutdown(socket.SHUT_WR)
        number = lone.host.accepted()
        lone.host.until(lambda: lone.host.has(mux.END, number))
        lone.host.write(number, b"answer", finish=True)
        assert read_all(program) == b"answer"
        assert lone.host.mux.streams == 0


def test_megabytes_pass_both_ways_unchanged(lone: Lone) -> None:
    number = lone.host.open("echo")
    lone.host.write(number, BIG, finish=True)
    lone.host.until(lambda: lone.host.has(mux.END, number))
    assert lone.host.data[number] == BIG


def test_the_host_can_open_a_port_on_which_a_program_listens(
    lone: Lone, server: socket.socket
) -> None:
    number = lone.host.open("connect", str(server.getsockname()[1]))
    with server.accept()[0] as program:
        lone.host.write(number, b"hello", finish=True)
        assert read_all(program) == b"hello"
        program.sendall(b"and back")
    lone.host.until(lambda: lone.host.has(mux.END, number))
    assert lone.host.data[number] == b"and back"


def on_the_other_loopback(port: int) -> socket.socket:
    """What listens there; a test that needs it is skipped where there is none."""
    try:
        return socket.create_server(("::1", port), family=socket.AF_INET6)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            pytest.skip("this host has no ::1")
        raise


def test_a_program_that_listens_on_the_other_loopback_is_found(lone: Lone) -> None:
    # Bound, so that nobody else can listen there.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with on_the_other_loopback(port) as listening:
            number = lone.host.open("connect", str(port))
            listening.settimeout(PATIENCE_S)
            with listening.accept()[0] as program:
                lone.host.write(number, b"x", finish=True)
                assert read_all(program) == b"x"


def test_a_port_on_which_nothing_listens_is_refused_in_words(lone: Lone) -> None:
    # Bound, so that nobody else can listen there.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        refusal = lone.host.refusal("connect", str(port))
    assert refusal == f"nothing listens on port {port} in the machine"


@pytest.mark.parametrize("purpose", [("connect",), ("connect", "http"), ("connect", "65536")])
def test_what_names_no_port_is_refused(lone: Lone, purpose: tuple[str, ...]) -> None:
    assert "names no port" in lone.host.refusal(*purpose)


def test_a_purpose_nobody_serves_is_refused(lone: Lone) -> None:
    assert lone.host.refusal("dance") == "this guest has nothing to open for 'dance'"


def test_a_stream_that_the_host_cuts_off_is_reset_for_the_program(lone: Lone) -> None:
    with lone.program() as program:
        number = lone.host.accepted()
        lone.host.mux.reset(number, "no")
        lone.host.flush()
        with pytest.raises(CUT_OFF):
            program.recv(1)


def test_a_program_that_is_gone_cuts_off_what_is_sent_to_it(
    lone: Lone, server: socket.socket
) -> None:
    number = lone.host.open("connect", str(server.getsockname()[1]))
    server.accept()[0].close()
    lone.host.until(lambda: lone.host.has(mux.END, number))
    lone.host.write(number, BIG)
    assert "closed the connection" in lone.host.words(mux.RESET, number)


def test_a_program_that_does_not_read_holds_up_no_other(lone: Lone, server: socket.socket) -> None:
    stalled = lone.host.open("connect", str(server.getsockname()[1]))
    with server.accept()[0]:
        lone.host.write(stalled, BIG * 8)
        lively = lone.host.open("echo")
        lone.host.write(lively, BIG, finish=True)
        lone.host.until(lambda: lone.host.has(mux.END, lively))
        assert lone.host.mux.waiting_bytes(stalled) > 0


def test_a_stream_the_host_does_not_take_from_holds_up_no_other(lone: Lone) -> None:
    with lone.program() as program:
        stalled = lone.host.accepted()
        lone.host.takes = False
        program.settimeout(0.3)
        with pytest.raises(TimeoutError):
            program.sendall(BIG * 16)
        lone.host.until(lambda: len(lone.host.data[stalled]) == mux.HOST_WINDOW)
        lone.host.takes = True
        lively = lone.host.open("echo")
        lone.host.write(lively, BIG, finish=True)
        lone.host.until(lambda: lone.host.has(mux.END, lively))
        assert len(lone.host.data[stalled]) == mux.HOST_WINDOW


def test_hundreds_of_streams_at_once_each_get_their_own_bytes(lone: Lone) -> None:
    numbers = [lone.host.open("echo") for _ in range(200)]
    for number in numbers:
        lone.host.write(number, b"%d " % number * 2_000, finish=True)
    lone.host.until(lambda: all(lone.host.has(mux.END, number) for number in numbers))
    assert all(lone.host.data[n] == b"%d " % n * 2_000 for n in numbers)


def test_programs_beyond_the_most_streams_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    few = mux.Mux(1, window=mux.GUEST_WINDOW, credit=mux.HOST_WINDOW, limit=2)
    monkeypatch.setattr(mux.Mux, "of_guest", lambda: few)
    lone: Lone = request.getfixturevalue("lone")
    with lone.program(), lone.program(), lone.program() as third:
        lone.host.until(lambda: lone.host.mux.streams == 2)
        third.sendall(b"my turn")
        lone.host.mux.reset(lone.host.events[0].stream, "over")
        lone.host.until(lambda: b"my turn" in lone.host.data.values())


def test_at_rest_nothing_is_under_way_and_afterwards_no_byte_is_missing(lone: Lone) -> None:
    number = lone.host.open("echo")
    lone.host.write(number, BIG, finish=True)
    for _ in range(5):
        sent = lone.drain()
        while lone.host.received < sent:
            lone.host.take_in(PATIENCE_S)
        lone.host.take_in(0.05)
        assert lone.host.received == sent
        lone.resume(0)
        lone.host.flush()
        lone.host.take_in(0.05)
    lone.host.until(lambda: lone.host.has(mux.END, number))
    assert lone.host.data[number] == BIG


def test_it_comes_to_rest_only_once_all_frames_of_the_host_are_there(lone: Lone) -> None:
    number = lone.host.open("echo")
    lone.orders.send_line(f"drain {lone.host.sent + 1} 1")
    time.sleep(0.05)
    assert lone.orders.receive_nowait() == []
    lone.host.write(number, b"late")
    assert lone.orders.wait_line("drained-1", PATIENCE_S) is not None
    lone.resume(0)
    lone.host.until(lambda: lone.host.data[number] == b"late")


def test_without_a_host_to_wait_for_it_comes_to_rest_at_once(lone: Lone) -> None:
    assert lone.drain(-1) == 0


def test_woken_it_cuts_off_every_stream_and_serves_new_ones(
    lone: Lone, server: socket.socket
) -> None:
    number = lone.host.open("connect", str(server.getsockname()[1]))
    with lone.program() as asking, server.accept()[0] as serving:
        lone.host.accepted()
        lone.host.write(number, b"before")
        assert serving.recv(10) == b"before"
        lone.drain()
        lone.resume(7)
        lone.host.renew(7)
        for sock in (asking, serving):
            sock.settimeout(PATIENCE_S)
            with pytest.raises(CUT_OFF):
                sock.recv(1)
    number = lone.host.open("echo")
    lone.host.write(number, b"after", finish=True)
    lone.host.until(lambda: lone.host.has(mux.END, number))
    assert lone.host.data[number] == b"after"


def test_woken_it_leaves_a_program_what_had_come_to_its_end(lone: Lone) -> None:
    with lone.program() as program:
        number = lone.host.accepted()
        lone.host.write(number, b"whole", finish=True)
        lone.drain()
        lone.resume(7)
        assert read_all(program) == b"whole"


def test_a_handler_is_cut_off_when_the_machine_wakes(
    lone: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def wait(stream: GuestStream, _: list[str]) -> None:
        stream.accept()
        try:
            stream.read()
        except ConnectionError as error:
            ended.append(str(error))

    monkeypatch.setitem(stream_handlers.HANDLERS, "wait", wait)
    lone.host.open("wait")
    lone.drain()
    lone.resume(7)
    lone.host.renew(7)
    lone.host.until(lambda: ended == ["the stream was cut off"])


def test_what_a_handler_raises_before_it_took_the_stream_is_the_refusal(
    lone: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stream: GuestStream, arguments: list[str]) -> None:
        raise OSError(f"no room for {arguments[0]}")

    monkeypatch.setitem(stream_handlers.HANDLERS, "fail", fail)
    assert lone.host.refusal("fail", "a.bin") == "no room for a.bin"


def test_what_a_handler_raises_later_cuts_the_stream_off_in_words(
    lone: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stream: GuestStream, _: list[str]) -> None:
        stream.accept()
        stream.write(b"half")
        raise OSError("the file changed")

    monkeypatch.setitem(stream_handlers.HANDLERS, "fail", fail)
    number = lone.host.open("fail")
    assert lone.host.words(mux.RESET, number) == "the file changed"
    assert lone.host.data[number] == b"half"


def test_what_a_handler_says_last_arrives_though_the_host_is_still_sending(
    lone: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(stream: GuestStream, _: list[str]) -> None:
        stream.accept()
        stream.read(10)
        stream.write(b"the disk is full")
        stream.finish()

    monkeypatch.setitem(stream_handlers.HANDLERS, "stop", stop)
    number = lone.host.open("stop")
    lone.host.write(number, BIG)
    lone.host.until(lambda: lone.host.has(mux.END, number))
    assert lone.host.data[number] == b"the disk is full"
    lone.host.until(lambda: lone.host.mux.waiting_bytes(number) == 0)


def test_once_the_host_is_gone_programs_are_not_left_waiting(lone: Lone) -> None:
    with lone.program() as before:
        lone.host.accepted()
        lone.host.sock.shutdown(socket.SHUT_RDWR)
        with pytest.raises(CUT_OFF):
            before.recv(1)
        with pytest.raises(CUT_OFF), lone.program() as after:
            after.recv(1)
    assert lone.drain(3) >= 0
