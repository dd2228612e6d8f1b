"""Carries streams of bytes between the host's port and sockets in this guest, in one loop.

    python -m branchpoint_guest.streamd PORT CONTROL LISTENER

Each is an inherited descriptor, the port may be a path. Whoever connects to the listener has a
stream opened to the host. What the host opens is connected to a port of the loopback, or given to
a handler in a thread. guestd speaks to it over the control descriptor, a line each:

    -> drain N K
    <- drained-K M
       once the N frames of the host have been read and no frame is half written; M were sent. Then
       it is at rest: it neither reads nor writes. If N is below 0, there is no host to wait for. K
       is any number, by which a late answer is known.
    -> resume G
       it goes on. If G is new, every stream is cut off, and counting restarts at 0.

It ends when guestd closes the control descriptor.
"""

import os
import select
import socket
import sys
from collections import deque

from branchpoint_guest import mux
from branchpoint_guest.mux import Event, Mux
from branchpoint_guest.stream_ends import End, accepted_end, connect_end, handler_end
from branchpoint_guest.stream_port import StreamPort

_EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
# Without a host there is nobody to tell when one comes.
_ABSENT_WAIT_S = 0.05
_MOST_ABSENT_WAIT_S = 2.0
# Those who wait for their turn must get it, however busy others are.
_FRAMES_A_TURN = 16
_CONNECTIONS_A_TURN = 32
_CLOSED = "the program in the machine closed the connection"


class Streamd:
    """The loop between one port and all local ends."""

    def __init__(self, port: StreamPort, listener: socket.socket, control: int) -> None:
        self._port = port
        self._listener = listener
        self._control = control
        self._orders = b""
        self._epoll = select.epoll()
        self._mux = Mux.of_guest()
        self._ends: dict[int, End] = {}
        self._by_descriptor: dict[int, End] = {}
        self._readable: deque[End] = deque()
        self._draining: tuple[int, int] | None = None
        self._accepting = False
        self._wants_to_write = False
        self._absent_wait_s = _ABSENT_WAIT_S
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._answers: deque[tuple[End, str | None]] = deque()

    def run(self) -> None:
        """Carry bytes until guestd closes the control descriptor."""
        for descriptor in (self._control, self._wakeup, self._port.descriptor):
            self._epoll.register(descriptor, select.EPOLLIN)
        while True:
            self._heed_listener()
            ready = dict(self._epoll.poll(self._timeout_s()))
            # First, while their numbers cannot yet be those of others.
            for descriptor, events in ready.items():
                self._note_ready(descriptor, events)
            if self._control in ready and not self._obey():
                return
            if self._port.descriptor in ready or self._port.absent:
                self._read_port()
            if self._listener.fileno() in ready:
                self._accept()
            if self._wakeup in ready:
                os.eventfd_read(self._wakeup)
            self._take_answers()
            self._write_port()
            if self._draining is not None:
                if not self._come_to_rest(*self._draining):
                    return
                self._write_port()

    def close(self) -> None:
        """Cut off what is left and let go of all it holds open but what it was given."""
        self._start_over()
        self._epoll.close()
        os.close(self._wakeup)

    def _timeout_s(self) -> float | None:
        if not self._port.absent:
            return None
        self._absent_wait_s = min(2 * self._absent_wait_s, _MOST_ABSENT_WAIT_S)
        return self._absent_wait_s

    def _heed_listener(self) -> None:
        """Let those who connect wait while there are as many streams as there may be."""
        wanted = self._mux.may_open
        if wanted != self._accepting:
            self._accepting = wanted
            if wanted:
                self._epoll.register(self._listener, select.EPOLLIN)
            else:
                self._epoll.unregister(self._listener)

    def _obey(self) -> bool:
        """Take guestd's orders; whether it is still there."""
        data = os.read(self._control, 4096)
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"drain":
                self._draining = int(numbers[0]), int(numbers[1])
            elif word == b"resume":
                self._resume(int(numbers[0]))
        return bool(data)

    def _come_to_rest(self, expected: int, asked: int) -> bool:
        """If all is through, do nothing until guestd says so; whether guestd is still there."""
        port = self._port
        is_through = port.received >= expected and not port.is_half_written
        if not is_through and expected >= 0 and not port.absent:
            return True
        os.write(self._control, b"drained-%d %d\n" % (asked, port.sent))
        while self._draining is not None:
            if not self._obey():
                return False
        return True

    def _resume(self, generation: int) -> None:
        self._draining = None
        if generation != self._port.generation:
            self._port.renew(generation)
            self._absent_wait_s = _ABSENT_WAIT_S
            self._start_over()

    def _start_over(self) -> None:
        """Cut off all streams, and know of none."""
        self._mux = Mux.of_guest()
        for end in list(self._ends.values()):
            self._remove(end)
            end.abort()
        self._answers.clear()

    def _read_port(self) -> None:
        was_absent = self._port.absent
        for body in self._port.read():
            event = self._mux.take(body)
            if event is not None:
                self._take(event)
        if self._port.absent and not was_absent:
            # It would be ready without end.
            self._epoll.unregister(self._port.descriptor)
            self._wants_to_write = False
            self._start_over()
        elif was_absent and not self._port.absent:
            self._epoll.register(self._port.descriptor, select.EPOLLIN)

    def _take(self, event: Event) -> None:
        if event.verb == mux.OPEN:
            self._open(event.stream, list(event.texts))
            return
        end = self._ends.get(event.stream)
        if end is None:
            return
        if event.verb == mux.CREDIT:
            self._give_turn(end)
        elif event.verb == mux.DATA:
            end.put(event.data)
            self._hand_over(end)
        elif event.verb == mux.END:
            end.put_end()
            self._hand_over(end)
        elif event.verb in (mux.RESET, mux.REFUSED):
            self._remove(end)
            end.abort()

    def _open(self, number: int, purpose: list[str]) -> None:
        if purpose[0] != "connect":
            self._add(handler_end(number, purpose, self._answer))
        elif len(purpose) == 2 and purpose[1].isdecimal() and int(purpose[1]) < 65536:
            self._connect(number, connect_end(number, int(purpose[1])), purpose[1])
        else:
            self._mux.refuse(number, f"{' '.join(purpose)!r} names no port")

    def _connect(self, number: int, end: End | None, port: object) -> None:
        if end is None:
            self._mux.refuse(number, f"nothing listens on port {port} in the machine")
        else:
            self._add(end)

    def _accept(self) -> None:
        for _ in range(_CONNECTIONS_A_TURN):
            if not self._mux.may_open:
                return
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._port.absent:
                accepted_end(0, sock).abort()
            else:
                self._add(accepted_end(self._mux.open(("egress",)), sock))

    def _add(self, end: End) -> None:
        self._ends[end.number] = self._by_descriptor[end.sock.fileno()] = end
        self._epoll.register(end.sock, _EDGES)

    def _remove(self, end: End) -> None:
        end.is_gone = True
        self._epoll.unregister(end.sock)
        del self._by_descriptor[end.sock.fileno()]
        del self._ends[end.number]

    def _note_ready(self, descriptor: int, events: int) -> None:
        end = self._by_descriptor.get(descriptor)
        if end is None:
            return
        if end.connecting_to is not None and not self._note_connected(end, end.connecting_to):
            return
        if events & select.EPOLLERR and not self._mux.room(end.number):
            self._cut(end, "the connection in the machine was reset")
            return
        if events & ~select.EPOLLOUT:
            end.is_readable = True
            self._give_turn(end)
        if events & select.EPOLLOUT:
            self._hand_over(end)

    def _note_connected(self, end: End, port: int) -> bool:
        """Whether it is connected; else the loopback's other address is tried."""
        if end.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._remove(end)
            end.sock.close()
            self._connect(end.number, connect_end(end.number, port, end.addresses_left), port)
            return False
        end.connecting_to = None
        self._mux.accept(end.number)
        return True

    def _answer(self, end: End, refusal: str | None) -> None:
        """Called in a handler's thread."""
        self._answers.append((end, refusal))
        os.eventfd_write(self._wakeup, 1)

    def _take_answers(self) -> None:
        while self._answers:
            end, refusal = self._answers.popleft()
            if end.is_gone:
                continue
            if refusal is None:
                self._mux.accept(end.number)
            else:
                self._remove(end)
                self._mux.refuse(end.number, refusal)
                end.abort()

    def _give_turn(self, end: End) -> None:
        if end.is_readable and not end.has_turn:
            end.has_turn = True
            self._readable.append(end)

    def _hand_over(self, end: End) -> None:
        """Give a local end what has come for it, as much as it takes now."""
        count = end.flush()
        if count:
            self._mux.taken(end.number, count)
        if end.is_deaf and not end.is_ended:
            # What is left to read comes first; after it, that nobody is there.
            end.is_readable = True
            self._give_turn(end)
        elif end.is_deaf and not end.may_end:
            self._cut(end, _CLOSED)
        else:
            self._end_if_over(end)

    def _pull(self) -> bool:
        """Take a frame's worth from the local end whose turn it is; False if none has any."""
        while self._readable:
            end = self._readable.popleft()
            end.has_turn = False
            # Credit gives it its turn again.
            room = 0 if end.is_gone else min(self._mux.room(end.number), mux.DATA_BYTES)
            if room and self._pull_from(end, room):
                return True
        return False

    def _pull_from(self, end: End, room: int) -> bool:
        try:
            data = end.sock.recv(room)
        except BlockingIOError:
            end.is_readable = False
            return False
        except OSError:
            data = b""
            end.is_deaf = True
        if data:
            self._mux.write(end.number, data)
            self._give_turn(end)
            return True
        # What a handler answered before it closed its end must go first.
        self._take_answers()
        if end.is_gone:
            return True
        end.is_readable = False
        if end.may_end:
            end.is_ended = True
            self._mux.finish(end.number)
            self._end_if_over(end)
        else:
            self._cut(end, end.words or _CLOSED)
        return True

    def _cut(self, end: End, words: str) -> None:
        self._remove(end)
        self._mux.reset(end.number, words)
        end.abort()

    def _end_if_over(self, end: End) -> None:
        if end.is_ended and end.is_ended_by_host:
            self._remove(end)
            end.sock.close()

    def _write_port(self) -> None:
        """Send as much as the host takes now, but no new frame when it is to come to rest."""
        if self._port.absent:
            return
        has_more = True
        for _ in range(_FRAMES_A_TURN):
            if not self._port.write():
                break
            frame = None if self._draining is not None else self._next_frame()
            if frame is None:
                has_more = False
                break
            self._port.put(frame)
        if has_more != self._wants_to_write:
            self._wants_to_write = has_more
            events = select.EPOLLIN | (select.EPOLLOUT if has_more else 0)
            self._epoll.modify(self._port.descriptor, events)

    def _next_frame(self) -> bytes | None:
        while True:
            frame = self._mux.next_frame(self._port.generation)
            if frame is not None or not self._pull():
                return frame


def main(arguments: list[str]) -> None:
    """Run the streams of this guest."""
    port, control, listener = arguments
    descriptor = int(port) if port.isdecimal() else os.open(port, os.O_RDWR | os.O_CLOEXEC)
    with socket.socket(fileno=int(listener)) as listening:
        listening.settimeout(0)
        streamd = Streamd(StreamPort(descriptor), listening, int(control))
        try:
            streamd.run()
        finally:
            streamd.close()


if __name__ == "__main__":
    main(sys.argv[1:])
