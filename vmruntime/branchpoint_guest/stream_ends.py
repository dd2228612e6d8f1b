"""The local ends of streams in this guest: connections of programs, and handlers in threads."""

import errno
import socket
from collections import deque
from collections.abc import Callable

from branchpoint_guest.stream_handlers import GuestStream, find_handler

# What the system may hold for a program that does not read; it is no part of the program's memory.
_SEND_BUFFER_BYTES = 128 * 1024
_LINGER_NOT_AT_ALL = b"\1\0\0\0\0\0\0\0"
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_UNDER_WAY = (0, errno.EINPROGRESS)


class End:
    """One local end: a socket, never waited for, and what has come for it from the host."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.words = ""
        self.stream: GuestStream | None = None
        self.is_readable = False
        self.has_turn = False
        self.is_gone = False
        self.is_deaf = False
        self.is_ended = False
        self.is_ended_by_host = False
        self.connecting_to: int | None = None
        self.addresses_left = 0
        self._host_is_done = False
        self._waiting: deque[memoryview] = deque()
        sock.settimeout(0)

    def put(self, data: bytes) -> None:
        """Queue what the host has sent."""
        self._waiting.append(memoryview(data))

    def put_end(self) -> None:
        """Note that the host sends no more."""
        self._host_is_done = True

    def flush(self) -> int:
        """Hand over as much as is taken now; how many bytes."""
        if self.connecting_to is not None:
            return 0
        total = 0
        while self._waiting:
            piece = self._waiting[0]
            count = self._send(piece)
            if not count:
                return total
            total += count
            if count == len(piece):
                self._waiting.popleft()
            else:
                self._waiting[0] = piece[count:]
        if self._host_is_done and not self.is_ended_by_host:
            self.is_ended_by_host = True
            self._shut_down()
        return total

    def _send(self, piece: memoryview) -> int:
        if not self.is_deaf:
            try:
                return self.sock.send(piece)
            except BlockingIOError:
                return 0
            except OSError:
                self.is_deaf = True
        return len(piece)

    def _shut_down(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            # Whoever was there has gone.
            return

    @property
    def may_end(self) -> bool:
        """Whether its silence is an end, and not that nobody is there any more."""
        return not self.is_deaf if self.stream is None else self.stream.finished

    def abort(self) -> None:
        """Close it so that whoever is there sees that it was cut off, but for one at its end."""
        if self.stream is not None:
            self.stream.cut = True
        elif not self.is_ended_by_host:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT_AT_ALL)
        self.sock.close()


def accepted_end(number: int, sock: socket.socket) -> End:
    """The end of a program that has connected."""
    _tune(sock)
    return End(number, sock)


def connect_end(number: int, port: int, addresses_left: int = len(_LOOPBACK)) -> End | None:
    """One that connects to a port of the loopback; None if nothing listens there.

    It tries the last so many of the loopback's addresses.
    """
    while addresses_left:
        family, address = _LOOPBACK[-addresses_left]
        addresses_left -= 1
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:
            continue
        _tune(sock)
        if sock.connect_ex((address, port)) in _UNDER_WAY:
            end = End(number, sock)
            end.connecting_to = port
            end.addresses_left = addresses_left
            return end
        sock.close()
    return None


def handler_end(number: int, purpose: list[str], answer: Callable[[End, str | None], None]) -> End:
    """One whose other side is a handler; `answer` is called, in its thread, with its refusal."""
    # Only when first wanted: an import costs when emulated.
    from threading import Thread  # noqa: PLC0415

    ours, theirs = socket.socketpair()
    end = End(number, ours)
    end.stream = GuestStream(theirs, lambda refusal: answer(end, refusal))
    Thread(target=_serve, args=(end, end.stream, purpose), daemon=True).start()
    return end


def _serve(end: End, stream: GuestStream, purpose: list[str]) -> None:
    word, *arguments = purpose
    try:
        handler = find_handler(word)
        if handler is None:
            stream.refuse(f"this guest has nothing to open for {word!r}")
        else:
            handler(stream, arguments)
    except Exception as error:
        end.words = str(error) or type(error).__name__
    finally:
        stream.refuse(end.words or "it was not taken")
        stream.close()


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
