"""A server whose actions count: it knows how often each was done, and can be held in the middle."""

import socket
import threading
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.support.live_kernel import wait_until

PATIENCE_S = 60.0
FIRST_CREDENTIAL = "credential-of-the-first-day"
_DONE, _EXPIRED, _WITHDRAWN, _FAULT = 201, 401, 403, 503
_WORDS = {
    _DONE: "done",
    _EXPIRED: "the credential has expired",
    _WITHDRAWN: "permission was withdrawn",
    _FAULT: "something went wrong",
}


class Verdict(Enum):
    """What it does about an action it was held at."""

    ANSWER = "answer"
    """Do it if credential and permission are as they should be, and say so."""
    VANISH = "vanish"
    """Do it, and cut the connection instead of answering."""
    FAULT = "fault"
    """Do it, and answer that something went wrong."""
    DROP = "drop"
    """Do nothing, and cut the connection."""


@dataclass
class Attempt:
    """An action it was asked for. `status` is None if whoever asked cannot have had an answer."""

    number: int
    name: str
    status: int | None = None
    took_effect: bool = False


@dataclass
class _Hold:
    arrived: threading.Event = field(default_factory=threading.Event)
    deserted: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    verdict: Verdict = Verdict.ANSWER


class EffectsServer:
    """`POST /orders/NAME` is an action of that name; the server does it as often as it is asked.

    It asks for `credential` as a bearer's token (401 without) and for `permitted` (403).
    """

    def __init__(self) -> None:
        self.credential = FIRST_CREDENTIAL
        self.permitted = True
        self._attempts: list[Attempt] = []
        self._holds: dict[str, _Hold] = {}
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        # Its end waits for them, so that none outlives the test.
        self._http.daemon_threads = False

    @property
    def port(self) -> int:
        """Where it listens on the loopback."""
        return self._http.server_port

    def attempts(self, name: str) -> list[Attempt]:
        """What it was asked under that name, oldest first."""
        with self._lock:
            return [attempt for attempt in self._attempts if attempt.name == name]

    def effects(self, name: str) -> int:
        """How often it did that."""
        return sum(attempt.took_effect for attempt in self.attempts(name))

    def hold(self, name: str) -> None:
        """Be held at the first attempt under that name until it is released."""
        self._holds[name] = _Hold()

    def wait_for(self, name: str) -> None:
        """Wait until an attempt has come that it is held at."""
        assert self._holds[name].arrived.wait(PATIENCE_S), f"nothing has come for {name}"

    def wait_until_deserted(self, name: str) -> None:
        """Wait until whoever asked has ended the connection."""
        assert self._holds[name].deserted.wait(PATIENCE_S), f"the one who asked for {name} stayed"

    def release(self, name: str, verdict: Verdict = Verdict.ANSWER) -> None:
        """Go on with what it is held at."""
        hold = self._holds[name]
        hold.verdict = verdict
        hold.released.set()

    def take(self, name: str, token: str | None, peer: socket.socket) -> Attempt:
        """Do, or refuse, what was asked."""
        with self._lock:
            attempt = Attempt(len(self._attempts) + 1, name)
            self._attempts.append(attempt)
            is_first = sum(it.name == name for it in self._attempts) == 1
        hold = self._holds.get(name) if is_first else None
        verdict = Verdict.ANSWER if hold is None else _held(hold, peer)
        with self._lock:
            if verdict in (Verdict.VANISH, Verdict.DROP):
                attempt.took_effect = verdict is Verdict.VANISH
                return attempt
            status = self._judge(token)
            attempt.took_effect = status == _DONE
            if verdict is Verdict.FAULT:
                status = _FAULT
            attempt.status = None if _is_deserted(peer) else status
        return attempt

    def _judge(self, token: str | None) -> int:
        if token != f"Bearer {self.credential}":
            return _EXPIRED
        return _DONE if self.permitted else _WITHDRAWN

    def __enter__(self) -> Self:
        # A thread that is daemonic, so that a test that fails does not hang at its end.
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        for hold in self._holds.values():
            hold.released.set()
        self._http.shutdown()
        self._http.server_close()


def _held(hold: _Hold, peer: socket.socket) -> Verdict:
    hold.arrived.set()

    def is_over() -> bool:
        if _is_deserted(peer):
            hold.deserted.set()
        return hold.released.is_set()

    wait_until(is_over, timeout_s=PATIENCE_S)
    return hold.verdict


def _is_deserted(peer: socket.socket) -> bool:
    try:
        return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _handler_of(server: EffectsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """An action."""
            self.rfile.read(int(self.headers["Content-Length"]))
            name = self.path.rpartition("/")[2]
            attempt = server.take(name, self.headers["Authorization"], self.connection)
            self.close_connection = True
            if attempt.status is None:
                return
            # No two are the same: a reply that is given again can be told from another one.
            words = f"{_WORDS[attempt.status]}: attempt {attempt.number}".encode()
            self.send_response(attempt.status)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
            """Say nothing."""

    return Handler
