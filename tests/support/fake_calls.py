"""guestd's socket for calls without guestd: each call gets the next answer it was told to give."""

import json
import socket
import threading
from collections import deque
from pathlib import Path
from typing import Any

Message = dict[str, Any]
WOKEN: Message = {"status": "woken", "branch": "ridge", "incarnation": "inc-2", "session": "s-1"}


class FakeCalls:
    """Serves one caller after another until it is closed. With no answer left it hangs up."""

    def __init__(self, address: Path) -> None:
        self.requests: list[Message] = []
        self.answers: deque[Message] = deque()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def done(self, value: Message | None = None, data: Message | None = None) -> None:
        """The next call is done."""
        self.answers.append({"status": "ok", "data": data, "value": value or {}})

    def woken(self, reason: str, index: int = 0) -> None:
        """The next call sees its machine woken."""
        self.answers.append({**WOKEN, "reason": reason, "index": index})

    def refused(self, why: str, hint: str = "", kind: str = "UsageError") -> None:
        """The next call is refused."""
        self.answers.append({"status": "error", "ename": kind, "evalue": why, "hint": hint})

    def close(self) -> None:
        """Serve nobody any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, caller.makefile("rwb") as lines:
                self.requests.append(json.loads(lines.readline()))
                if self.answers:
                    lines.write(json.dumps(self.answers.popleft()).encode() + b"\n")
