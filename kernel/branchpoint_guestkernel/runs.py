"""Code that guestd itself has the kernel run: requests out, text and status back."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Tells messages about these requests apart without parsing every message that passes.
OWN_PREFIX = "branchpoint-guestd-"
OWN_MARK = OWN_PREFIX.encode()
# ipykernel has threads print under the last request on its main shell, whosever that was.
_OUTPUTS = frozenset({"stream", "display_data", "update_display_data", "clear_output", "error"})


def own_request(number: int, message_type: str, content: dict[str, Any]) -> tuple[str, list[bytes]]:
    """The id and the frames (header, parent, metadata, content) of a request of guestd's own."""
    message_id = f"{OWN_PREFIX}{number}"
    header = {
        "msg_id": message_id,
        "msg_type": message_type,
        "session": OWN_PREFIX,
        "username": "branchpoint",
        "version": "5.3",
        "date": "1970-01-01T00:00:00Z",
    }
    frames = [json.dumps(header).encode(), b"{}", b"{}", json.dumps(content).encode()]
    return message_id, frames


def _read(frame: bytes) -> dict[str, Any]:
    # Python writes odd file names as the bytes they are, which need be no UTF-8.
    return json.loads(frame.decode(errors="replace"))


@dataclass
class _Run:
    """One request under way."""

    id: Any
    started_s: float
    deadline_s: float
    text: list[str] = field(default_factory=list[str])
    reply: dict[str, Any] | None = None
    idle: bool = False


class Runs:
    """The runs under way, by the message id of their request."""

    def __init__(
        self,
        send: Callable[[list[bytes]], None],
        report: Callable[[dict[str, Any]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._report = report
        self._clock = clock
        self._number = 0
        self._runs: dict[str, _Run] = {}
        self._overdue: set[str] = set()

    def ask(self, message_type: str, content: dict[str, Any]) -> str:
        """Send a request nobody waits for here; its message id."""
        self._number += 1
        message_id, frames = own_request(self._number, message_type, content)
        self._send(frames)
        return message_id

    def start(self, order: dict[str, Any]) -> None:
        """Have the kernel run `order["code"]`; a "ran" is reported when it is over or overdue."""
        content: dict[str, Any] = {
            "code": order["code"],
            "silent": False,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message_id = self.ask("execute_request", content)
        now = self._clock()
        self._runs[message_id] = _Run(order["id"], now, now + float(order["timeout_s"]))

    def next_deadline_s(self) -> float | None:
        """When the first of them is overdue, on the clock."""
        return min((run.deadline_s for run in self._runs.values()), default=None)

    def expire(self) -> None:
        """Report those that are overdue. The kernel goes on: to stop it is the host's decision."""
        now = self._clock()
        for message_id, run in list(self._runs.items()):
            if run.deadline_s <= now:
                self._overdue.add(message_id)
                self._finish(message_id, run, "timeout", None)

    def take_reply(self, frames: Sequence[bytes]) -> None:
        """A reply from the shell channel, as header, parent, metadata, content."""
        message_id = str(_read(frames[1]).get("msg_id"))
        if run := self._runs.get(message_id):
            run.reply = _read(frames[3])
            self._finish_if_over(message_id, run)

    def take_output(self, frames: Sequence[bytes]) -> bool:
        """A message from iopub whose parent is one of our requests; whether it is ours.

        What is said once the request is over is not: a thread of the user's says it.
        """
        message_id, kind = str(_read(frames[1]).get("msg_id")), _read(frames[0])["msg_type"]
        content = _read(frames[3]) if kind == "status" else {}
        if content.get("execution_state") == "idle":
            self._overdue.discard(message_id)
        run = self._runs.get(message_id)
        if run is None:
            return kind not in _OUTPUTS or message_id in self._overdue
        self._keep(message_id, run, kind, _read(frames[3]))
        return True

    def _keep(self, message_id: str, run: _Run, kind: str, content: dict[str, Any]) -> None:
        match kind:
            case "stream":
                run.text.append(content["text"])
            case "execute_result" | "display_data":
                run.text.append(content["data"].get("text/plain", "") + "\n")
            case "status" if content["execution_state"] == "idle":
                run.idle = True
                self._finish_if_over(message_id, run)
            case _:
                pass

    def _finish_if_over(self, message_id: str, run: _Run) -> None:
        # Reply and idle come over different sockets, in either order; output is complete at idle.
        if run.reply is None or not run.idle:
            return
        error = None
        status = "ok" if run.reply["status"] == "ok" else "error"
        if status == "error":
            error = {key: run.reply.get(key, "") for key in ("ename", "evalue", "traceback")}
        self._finish(message_id, run, status, error)

    def _finish(
        self, message_id: str, run: _Run, status: str, error: dict[str, Any] | None
    ) -> None:
        del self._runs[message_id]
        self._report(
            {
                "id": run.id,
                "status": status,
                "text": "".join(run.text),
                "error": error,
                "elapsed_ms": (self._clock() - run.started_s) * 1000,
            }
        )
