"""An HTTP server on loopback that misbehaves as its path says."""

import contextlib
import socket
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

ELSEWHERE = "http://elsewhere.example.org/"
_NO_LINGER = struct.pack("ii", 1, 0)
_LED_AWAY = f"HTTP/1.1 302 Found\r\nLocation: {ELSEWHERE}\r\nContent-Length: 0\r\n\r\n"
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"
_PIECE = bytes(1 << 16)
_ANSWERS = {
    "/fine": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
    "/no-http": b"SSH-2.0-server\r\n\r\n",
    "/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "/breaks-off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
    "/redirect": _LED_AWAY.encode(),
}


class BadServer(socketserver.ThreadingTCPServer):
    """Counts who has asked for what; stalled callers wait until it ends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Caller)
        self.asked: Counter[str] = Counter()
        self.sent_bytes = 0
        self.over = threading.Event()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Caller(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, BadServer)
        path = self._path()
        server.asked[path] += 1
        match path:
            case "/stall":
                server.over.wait()
            case "/reset":
                self._reset()
            case "/endless":
                with contextlib.suppress(OSError):
                    self._send_for_ever(server)
            case _:
                self.wfile.write(_ANSWERS.get(path, b""))

    def _path(self) -> str:
        first = self.rfile.readline().split()
        while self.rfile.readline().strip():
            pass
        return first[1].decode() if len(first) > 1 else ""

    def _reset(self) -> None:
        connection: socket.socket = self.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        # What shuts a connection down in order would have it end in order.
        connection.close()

    def _send_for_ever(self, server: BadServer) -> None:
        self.connection.sendall(_ENDLESS)
        while not server.over.is_set():
            self.connection.sendall(_PIECE)
            server.sent_bytes += len(_PIECE)

    def finish(self) -> None:
        """Called by socketserver."""
        with contextlib.suppress(OSError):
            super().finish()


@contextmanager
def bad_server() -> Generator[BadServer]:
    """One that runs while the block lasts."""
    with BadServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
