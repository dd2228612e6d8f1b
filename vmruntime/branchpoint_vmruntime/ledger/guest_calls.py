"""What machines ask about `once`, as JSON, and the answers to it."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.ledger.intents import Caller
from branchpoint_vmruntime.ledger.once import Begun, OnceDesk


class OnceCalls:
    """Answers calls `{"do": "once", "step": ...}`.

    A caller first makes a call that it leaves open, the hold, and names it in what follows: so that
    nobody waits for the outcome of a process that was killed. Who names none does without.
    """

    def __init__(self, desk: OnceDesk) -> None:
        self._desk = desk
        self._holds: dict[tuple[str, str], set[int]] = {}

    async def answer(
        self, who: Caller, request: Mapping[str, Any], gone: asyncio.Event
    ) -> dict[str, Any] | None:
        """The value that answers a call; None if nobody is left to take it. Raises in words.

        It may wait for another call of the same machine: those must be answered meanwhile, yet
        begun in the order in which they came. `gone` is set once the caller waits no more.
        """
        match request.get("step"):
            case "hold":
                await self._hold(who, _text(request, "ticket"), gone)
                return None
            case "begin":
                return await self._begin(who, request, gone)
            case "end":
                ok, number, payload = request.get("ok"), _number(request), _payload(request)
                return _told(self._desk.end(who, number, ok=ok is True, payload=payload or b""))
            case "accept":
                key, payload = _text(request, "key"), _payload(request)
                return {"number": self._desk.accept(who.session, key, payload).number}
            case other:
                raise UsageError(f"there is no step {other!r} in once")

    async def _hold(self, who: Caller, ticket: str, gone: asyncio.Event) -> None:
        place = who.incarnation, ticket
        held = self._holds.setdefault(place, set())
        try:
            await gone.wait()
        finally:
            self._holds.pop(place, None)
            for number in held:
                self._desk.give_up(who, number)

    async def _begin(
        self, who: Caller, request: Mapping[str, Any], gone: asyncio.Event
    ) -> dict[str, Any] | None:
        key, retry = _text(request, "key"), request.get("retry") is True
        beginning = asyncio.create_task(self._desk.begin(who, key, retry=retry))
        leaving = asyncio.create_task(gone.wait())
        try:
            await asyncio.wait((beginning, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not beginning.done():
                return None
            begun = beginning.result()
        finally:
            for task in (beginning, leaving):
                task.cancel()
            await asyncio.wait((beginning, leaving))
        if begun.state == "run":
            self._note_holder(who, request, begun.number, gone)
        return _told(begun)

    def _note_holder(
        self, who: Caller, request: Mapping[str, Any], number: int, gone: asyncio.Event
    ) -> None:
        held = None
        if "ticket" in request:
            held = self._holds.get((who.incarnation, _text(request, "ticket")))
            if held is not None:
                held.add(number)
        if gone.is_set() or (held is None and "ticket" in request):
            self._desk.withdraw(who, number)
            raise UsageError("whoever began it is gone")


def _told(begun: Begun) -> dict[str, Any]:
    payload = None if begun.payload is None else b64encode(begun.payload).decode()
    facts = {"state": begun.state, "number": begun.number, "words": begun.words}
    return facts | {"payload": payload}


def _text(request: Mapping[str, Any], name: str) -> str:
    text = request.get(name)
    if not isinstance(text, str):
        raise UsageError(f"a {name} is a text")
    return text


def _number(request: Mapping[str, Any]) -> int:
    number = request.get("number")
    if not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise UsageError("what was begun is named by its number")
    return number


def _payload(request: Mapping[str, Any]) -> bytes | None:
    payload = request.get("payload")
    if payload is None:
        return None
    try:
        return b64decode(payload, validate=True)
    except (ValueError, TypeError) as error:
        raise UsageError("a payload is base64") from error
