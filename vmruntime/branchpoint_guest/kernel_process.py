"""The kernel in this guest and the relay beside it.

Start them, speak with them, learn of their end.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from branchpoint_guest.freezer import UserCgroup
from branchpoint_guest.ports import find_port

RUN = Path("/run/branchpoint")
CONNECTION = RUN / "kernel.json"
HOOK_SOCKET = RUN / "hook.sock"
QUESTIONS_SOCKET = f"{HOOK_SOCKET}.questions"

PROXY_PORT = 3128
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_HERE = "localhost,127.0.0.1,::1"
_AUTHORITIES = str(RUN / "ca.pem")

_USER_ENVIRONMENT = {
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "TERM": "xterm-256color",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    # The only way out; programs look for it under either spelling.
    "http_proxy": _PROXY,
    "https_proxy": _PROXY,
    "all_proxy": _PROXY,
    "no_proxy": _HERE,
    "HTTP_PROXY": _PROXY,
    "HTTPS_PROXY": _PROXY,
    "ALL_PROXY": _PROXY,
    "NO_PROXY": _HERE,
    # Whom to trust; each program asks for it by a name of its own.
    "SSL_CERT_FILE": _AUTHORITIES,
    "REQUESTS_CA_BUNDLE": _AUTHORITIES,
    "CURL_CA_BUNDLE": _AUTHORITIES,
    "GIT_SSL_CAINFO": _AUTHORITIES,
    "PIP_CERT": _AUTHORITIES,
    "NODE_EXTRA_CA_CERTS": _AUTHORITIES,
}


class LineSocket:
    """Lines of text over a stream socket, each a word and what it is about. Sends block."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self.closed = False

    def send_line(self, line: str) -> None:
        """Send one line."""
        self.sock.sendall(f"{line}\n".encode())

    def receive_nowait(self) -> list[tuple[str, str]]:
        """Every whole line that has arrived, its first word apart."""
        try:
            while data := self.sock.recv(1 << 16, socket.MSG_DONTWAIT):
                self._buffer += data
            self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        if b"\n" not in self._buffer:
            return []
        *lines, self._buffer = self._buffer.split(b"\n")
        texts = (line.decode(errors="replace") for line in lines)
        return [(word, rest) for word, _, rest in (text.partition(" ") for text in texts)]

    def ask_line(self, line: str, answer: str, timeout_s: float) -> str | None:
        """Send, and wait for the line that starts with that word; None if it does not come.

        Lines that come before it are passed over: ask only where none are expected.
        """
        try:
            self.send_line(line)
        except OSError:
            return None
        return self.wait_line(answer, timeout_s)

    def wait_line(self, answer: str, timeout_s: float) -> str | None:
        """Wait for the line that starts with that word; None if it does not come."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0 and not self.closed:
            select.select([self.sock], [], [], left)
            for word, rest in self.receive_nowait():
                if word == answer:
                    return rest
        return None


class Hook(LineSocket):
    """The hook in the kernel."""

    def greet(self, fields: list[str], timeout_s: float) -> tuple[str, str]:
        """Tell the kernel who it is now; its nonce, and which generators it made new.

        `?` for a nonce if it does not answer in time, which no kernel has.
        """
        answer = self.ask_line("awake " + "\t".join(fields), "awake", timeout_s)
        if answer is None:
            return "?", ""
        nonce, _, reseeded = answer.partition("\t")
        return nonce, reseeded


class KernelProcess:
    """The kernel, in the user's cgroup, and the relay, outside it: it must drain what is frozen."""

    def __init__(self, cgroup: UserCgroup, argv: list[str], environment: dict[str, str]) -> None:
        self._cgroup = cgroup
        RUN.mkdir(mode=0o755, exist_ok=True)
        self._write_connection_file()
        self.hook: Hook | None = None
        with Path("/dev/console").open("wb") as console, self._pipe_to(console) as log:
            self.kernel = subprocess.Popen(
                [part.replace("{connection_file}", str(CONNECTION)) for part in argv],
                cwd="/root",
                env=user_environment()
                | environment
                | {"BRANCHPOINT_HOOK_SOCKET": str(HOOK_SOCKET)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=cgroup.adopt_self,
            )
            self.relay_link, self.relay = self._start_relay(console)

    @staticmethod
    def _pipe_to(console: IO[bytes]) -> IO[bytes]:
        # To the kernel's programs the console itself is a terminal of no rows, on which a progress
        # bar finds no room to be shown.
        cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=console)
        assert cat.stdin is not None
        return cat.stdin

    @staticmethod
    def _write_connection_file() -> None:
        ports = {
            f"{name}_port": n
            for n, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)
        }
        CONNECTION.write_text(
            json.dumps(
                {
                    "transport": "ipc",
                    "ip": str(RUN / "kernel"),
                    "key": "",
                    "signature_scheme": "hmac-sha256",
                    **ports,
                }
            )
        )

    @staticmethod
    def _start_relay(console: Any) -> tuple[LineSocket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-P", "-m", "branchpoint_guestkernel.relay"]
        argv += [
            "--port",
            str(find_port("kernel")),
            "--connection",
            str(CONNECTION),
            "--control-fd",
            str(theirs.fileno()),
        ]
        relay = subprocess.Popen(
            argv,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
        theirs.close()
        return LineSocket(ours), relay

    def connect_hook(self) -> None:
        """Connect to the hook in the kernel, if the kernel is one that has it."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(HOOK_SOCKET))
        except OSError:
            connection.close()
        else:
            self.hook = Hook(connection)

    def interrupt(self) -> None:
        """SIGINT to the kernel and what it started, as Jupyter does to a local kernel."""
        os.killpg(self.kernel.pid, 2)


def user_environment() -> dict[str, str]:
    """The environment the user's processes start with."""
    return dict(_USER_ENVIRONMENT)
