"""Calls: what processes in the guest ask of the host, and wait for.

Any process may connect to the socket; a JSON object a line, each way, one call at a time.
"""

import json
import os
import select
import socket
from collections.abc import Callable
from typing import Any

ADDRESS = "/run/branchpoint/calls.sock"
LINE_LIMIT = 256 << 20
_CALLERS = 128
_READ_BYTES = 256 * 1024
_GONE = select.EPOLLHUP | select.EPOLLERR
_SCALARS = (str, int, float, type(None))

Message = dict[str, Any]


class _Caller:
    """One connection. `number` is of the call that waits for its answer, or None."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number: int | None = None
        self.arrived = bytearray()
        self.leaving: list[memoryview] = []
        self.last_words = False
        self._searched = 0

    @property
    def events(self) -> int:
        """What to listen for. While a call waits only that its caller hangs up, always reported."""
        if self.leaving:
            return select.EPOLLOUT
        return 0 if self.number is not None else select.EPOLLIN

    def cut_line(self) -> bytearray | None:
        """The next whole line, without a copy if nothing came after it."""
        end = self.arrived.find(b"\n", self._searched)
        self._searched = len(self.arrived) if end < 0 else 0
        if end < 0:
            return None
        if end == len(self.arrived) - 1:
            line, self.arrived = self.arrived, bytearray()
            return line
        line = self.arrived[:end]
        del self.arrived[: end + 1]
        return line

    def say(self, answer: Message) -> None:
        """Queue an answer, and send what fits now."""
        self.leaving.append(memoryview(json.dumps(answer).encode() + b"\n"))
        self.write()

    def write(self) -> None:
        """Send as much of what is queued as the caller has room for."""
        try:
            while self.leaving:
                data = self.leaving[0]
                self.leaving[0] = data[self.connection.send(data, socket.MSG_NOSIGNAL) :]
                if not self.leaving[0]:
                    del self.leaving[0]
        except BlockingIOError:
            return
        except OSError:
            # The end of the connection is reported by itself.
            self.leaving.clear()


class Calls:
    """Takes in calls, tells the host of them, and hands back its answers. Never waits for anybody.

    `report` sends the host one JSON object, given in pieces. Calls are numbered for the whole past
    of a machine: what is pending is in memory, and so in its checkpoints.
    """

    def __init__(
        self, address: str, report: Callable[[bytes, bytes | bytearray, bytes], None]
    ) -> None:
        self._report = report
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        os.chmod(address, 0o666)  # noqa: PTH101 (pathlib is slow to walk at a cold boot)
        self._listener.listen(64)
        self._listener.setblocking(False)  # noqa: FBT003
        self._ready = select.epoll()
        self._ready.register(self._listener, select.EPOLLIN)
        self._callers: dict[int, _Caller] = {}
        self._pending: dict[int, _Caller] = {}
        self._last_number = 0
        # Held here it counts against what is set aside for us, not against the user's share.
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._limit = min(LINE_LIMIT, memory // 8)

    def fileno(self) -> int:
        """Readable while there is something for `serve` to do."""
        return self._ready.fileno()

    def serve(self) -> None:
        """Take what has come, send what can be sent, notice who has gone."""
        for descriptor, events in self._ready.poll(0):
            caller = self._callers.get(descriptor)
            if caller is None:
                self._accept()
            elif events & _GONE:
                self._forget(caller)
            else:
                self._attend(caller, events)

    def answer(self, number: int, answer: Message) -> None:
        """Give a caller its answer; nothing happens if it waits no more."""
        if caller := self._pending.pop(number, None):
            caller.number = None
            caller.say(answer)
            self._go_on(caller)

    def wake(self, reason: str, incarnation: str, branch: str, index: str, session: str) -> None:
        """Tell everyone who waits that the machine was woken from a checkpoint: nobody else will.

        A machine that is only looked into keeps them waiting.
        """
        if not self._pending or reason == "peek":
            return
        answer: Message = {"status": "woken", "reason": reason, "branch": branch}
        answer |= {"index": int(index), "incarnation": incarnation, "session": session}
        for number in list(self._pending):
            self.answer(number, answer)

    def close(self) -> None:
        """Hang up on everyone."""
        for caller in self._callers.values():
            caller.connection.close()
        self._listener.close()
        self._ready.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)  # noqa: FBT003
        caller = _Caller(connection)
        self._callers[connection.fileno()] = caller
        self._ready.register(connection, select.EPOLLIN)
        if len(self._callers) > _CALLERS:
            self._dismiss(caller, f"more than {_CALLERS} processes call at once; try again later")
            self._go_on(caller)

    def _attend(self, caller: _Caller, events: int) -> None:
        if events & select.EPOLLOUT:
            caller.write()
        elif events & select.EPOLLIN and not self._read(caller):
            self._forget(caller)
            return
        self._go_on(caller)

    def _read(self, caller: _Caller) -> bool:
        """Whether there may be more to come."""
        try:
            data = caller.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        caller.arrived += data
        if sum(len(each.arrived) for each in self._callers.values()) > self._limit:
            caller.arrived.clear()
            self._dismiss(caller, f"a call may not be over {self._limit >> 20} MB")
        return bool(data)

    def _go_on(self, caller: _Caller) -> None:
        """After something was read, written or answered: the next call, or what to listen for."""
        if caller.last_words and not caller.leaving:
            self._forget(caller)
            return
        while caller.number is None and not caller.leaving:
            line = caller.cut_line()
            if line is None:
                break
            self._begin(caller, line)
        self._ready.modify(caller.connection, caller.events)

    def _begin(self, caller: _Caller, line: bytearray) -> None:
        if not _is_flat_object(line):
            caller.say(_refusal("a call is one JSON object a line, of texts and numbers"))
            return
        self._last_number += 1
        caller.number = self._last_number
        self._pending[caller.number] = caller
        # As it came: made anew, it would be held several times over.
        self._report(b'{"op": "call", "id": %d, "request": ' % caller.number, line, b"}")

    def _dismiss(self, caller: _Caller, why: str) -> None:
        caller.last_words = True
        caller.say(_refusal(why))

    def _forget(self, caller: _Caller) -> None:
        self._ready.unregister(caller.connection)
        del self._callers[caller.connection.fileno()]
        caller.connection.close()
        if caller.number is not None:
            del self._pending[caller.number]
            self._report(b'{"op": "call-gone", "id": ', b"%d" % caller.number, b"}")


def _is_flat_object(line: bytearray) -> bool:
    """Whether the host will be able to read it: nothing in it is nested."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(request, dict) and all(
        isinstance(value, _SCALARS)
        for value in request.values()  # pyright: ignore[reportUnknownVariableType]
    )


def _refusal(why: str) -> Message:
    return {"status": "error", "ename": "UsageError", "evalue": why, "hint": ""}
