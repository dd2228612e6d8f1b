"""Run by a Python on the host and one in the guest: a server of HTTP, and a client that times it.

`python3 -c SOURCE serve` prints its port and serves until its input ends. `python3 -c SOURCE ask
ROUNDS ASKS CERTIFICATES` times each of ASKS, which is JSON, once a round, and prints the seconds of
each as JSON. Both do as little as can be beside the bytes themselves.
"""

import json
import socket
import ssl
import sys
import threading
import time
from functools import cache

BLOCK = bytes(range(256)) * 256
PROXY_PORT = 3128
HERE = "127.0.0.1"
BACKLOG = 512


def serve(context: "ssl.SSLContext | None" = None) -> None:
    """Serve on a free port until standard input ends."""
    listener = socket.create_server((HERE, 0), backlog=BACKLOG)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=accept, args=(listener, context), daemon=True).start()
    sys.stdin.read()


def accept(listener: socket.socket, context: "ssl.SSLContext | None") -> None:
    """Answer whoever connects, each in a thread."""
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=answer, args=(connection, context), daemon=True).start()


def answer(connection: socket.socket, context: "ssl.SSLContext | None") -> None:
    """`GET /BYTES` is given so many, `PUT /BYTES` gives so many."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        head, rest = read_head(connection)
        if head:
            method, target, _ = head.split(b" ", 2)
            size = int(target.rsplit(b"/", 1)[1])
            if method == b"PUT":
                take(connection, size - rest)
                size = 0
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size
            )
            give(connection, size)
    except OSError:
        # The client has what it wanted.
        return
    finally:
        connection.close()


def read_head(connection: socket.socket) -> "tuple[bytes, int]":
    """A head, and how many bytes came after it; nothing from one that only connects."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(len(BLOCK))
        if not more:
            return b"", 0
        data += more
    head, rest = data.split(b"\r\n\r\n", 1)
    return head, len(rest)


def take(connection: socket.socket, size: int) -> None:
    """Receive so many bytes."""
    room = bytearray(len(BLOCK))
    while size > 0:
        count = connection.recv_into(room)
        if not count:
            raise ConnectionError("it ended too soon")
        size -= count


def give(connection: socket.socket, size: int) -> None:
    """Send so many bytes."""
    while size > 0:
        piece = BLOCK[:size]
        connection.sendall(piece)
        size -= len(piece)


def connect(way: str, port: int, certificates: str = "") -> socket.socket:
    """A connection to a server there by that way: `direct`, `proxy` or `tunnel`, `+tls` or not."""
    how, _, tls = way.partition("+")
    connection = socket.create_connection((HERE, port if how == "direct" else PROXY_PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if how == "tunnel":
        place = f"{HERE}:{port}"
        connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        check(read_head(connection)[0])
    if tls:
        connection = trusting(certificates).wrap_socket(connection, server_hostname=HERE)
    return connection


@cache
def trusting(certificates: str) -> ssl.SSLContext:
    """Made once, since it takes longer than a connection."""
    return ssl.create_default_context(cafile=certificates)


def check(head: bytes) -> None:
    """ConnectionError for any answer but 200."""
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise ConnectionError(head.decode(errors="replace"))


def ask_s(way: str, port: int, method: str, size: int, certificates: str) -> float:
    """Seconds of one request, from before its connection to the end of its answer."""
    started = time.monotonic()
    with connect(way, port, certificates) as connection:
        base = f"http://{HERE}:{port}" if way == "proxy" else ""
        head = f"{method} {base}/{size} HTTP/1.1\r\nHost: {HERE}:{port}\r\nConnection: close\r\n"
        length = f"Content-Length: {size}\r\n" if method == "PUT" else ""
        connection.sendall(f"{head}{length}\r\n".encode())
        if method == "PUT":
            give(connection, size)
        answered, rest = read_head(connection)
        check(answered)
        if method == "GET":
            take(connection, size - rest)
    return time.monotonic() - started


def main(what: str, rounds: str = "0", asks: str = "[]", certificates: str = "") -> None:
    """What the module says."""
    if what == "serve":
        serve()
        return
    wanted: list[tuple[str, int, str, int]] = json.loads(asks)
    times: list[list[float]] = [[] for _ in wanted]
    for _ in range(int(rounds)):
        for seconds, (way, port, method, size) in zip(times, wanted, strict=True):
            seconds.append(ask_s(way, port, method, size, certificates))
    sys.stdout.write(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
