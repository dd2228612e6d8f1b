"""The calls out of one machine: taken in as they come, handed on in order, answered by number."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

from branchpoint_vmruntime.branch_seam import GuestCall
from branchpoint_vmruntime.errors import MachineError

# More at once than any program in a guest has use for: one that asks on and on is refused.
MAX_OPEN_CALLS = 256
_SCALARS = (str, int, float, type(None))


class CallQueue:
    """Implements `session.CallChannel`. `send` is given a call's number and its answer."""

    def __init__(self, send: Callable[[int, Mapping[str, Any]], None]) -> None:
        self._send = send
        self._open: dict[int, GuestCall] = {}
        self._queue: deque[GuestCall] = deque()
        self._arrived = asyncio.Event()
        self._end: MachineError | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """A call the guest tells of. One too many gets its refusal at once.

        ValueError if it is none that the guest's own would tell of.
        """
        number: object = event["id"]
        request: object = event["request"]
        if type(number) is not int or number in self._open:
            raise ValueError(f"a call under the number {number!r}")
        if not _is_flat(request):
            self._send(number, _refusal("what was asked for is not a JSON object of texts"))
        elif len(self._open) >= MAX_OPEN_CALLS:
            self._send(number, _refusal(f"{MAX_OPEN_CALLS} calls wait for their answers already"))
        else:
            self._open[number] = GuestCall(number, cast("dict[str, Any]", request))
            self._queue.append(self._open[number])
            self._arrived.set()

    def note_gone(self, number: int) -> None:
        """The caller waits no more."""
        if call := self._open.pop(number, None):
            call.gone.set()
            # Otherwise calls that are begun and given up would gather here.
            if call in self._queue:
                self._queue.remove(call)

    async def next(self) -> GuestCall:
        """The next call, once there is one whose caller still waits."""
        while True:
            while not self._queue:
                if self._end is not None:
                    raise self._end
                self._arrived.clear()
                await self._arrived.wait()
            call = self._queue.popleft()
            if not call.gone.is_set():
                return call

    async def answer(self, call: GuestCall, answer: Mapping[str, Any]) -> None:
        """Give the caller its answer, unless it waits no more or has one."""
        if self._open.get(call.id) is call:
            # One that cannot be sent leaves the caller waiting for another.
            self._send(call.id, answer)
            self._open.pop(call.id, None)

    def fail(self, error: MachineError) -> None:
        """The machine has ended: nobody waits any more."""
        self._end = self._end or error
        self._queue.clear()
        for number in list(self._open):
            self.note_gone(number)
        self._arrived.set()


def _is_flat(request: object) -> bool:
    if not isinstance(request, dict):
        return False
    return all(
        isinstance(value, _SCALARS)
        for value in request.values()  # pyright: ignore[reportUnknownVariableType]
    )


def _refusal(why: str) -> dict[str, Any]:
    return {"status": "error", "ename": "UsageError", "evalue": why, "hint": ""}
