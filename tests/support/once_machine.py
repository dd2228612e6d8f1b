"""A machine for `once` without a machine: the host's own desk behind guestd's socket.

It wakes as guestd and the hook have it: whoever waits for an answer is told, and what is running in
this very process is stopped.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from branchpoint import waking
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.ledger import Entry, OutcomeState
from branchpoint_vmruntime.ledger.guest_calls import OnceCalls
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import Begun, OnceDesk

Value = TypeVar("Value")
Message = dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """Somebody in the machine, as of one waking."""

    incarnation: str
    branch: str = "main"
    session: str = "s-1"
    checkpoint: Callable[[], str] = lambda: "aaaa"


@dataclass(eq=False)
class _Call:
    """One that waits for its answer."""

    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    is_the_source_s: bool = False


class OnceMachine:
    """In a `with`. Its loop has a thread of its own, so that the test may block."""

    def __init__(self, address: Path, ledger_path: Path, identity_path: Path) -> None:
        self.requests: list[Message] = []
        self.refuse_ends = 0
        self._number = 1
        self._alive = {"inc-1"}
        self._waiting: set[_Call] = set()
        self._sources: list[_Call] = []
        self._address = address
        self._identity_path = identity_path
        self._ledger_path = ledger_path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    @property
    def who(self) -> Caller:
        """Whoever calls now."""
        return Caller(f"inc-{self._number}")

    def __enter__(self) -> "OnceMachine":
        self._thread.start()
        self._do(self._open())
        self.adopt_alone("start")
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wake(self, reason: str, *, source_lives: bool = False) -> Caller:
        """Become what the machine is after `reason`; the machine that was saved is given back."""
        source = self.who
        # In guestd's order: the identity, the hook, whoever waits for an answer.
        self._number += 1
        self.adopt_alone(reason)
        self._do(self._wake(source, reason, source_lives=source_lives))
        return source

    def adopt_alone(self, reason: str) -> None:
        """Be told by guestd and the hook, when nobody waits for an answer."""
        facts = {"branch": "main", "index": 0, "incarnation": self.who.incarnation}
        self._identity_path.write_text(json.dumps(facts | {"session": "s-1", "reason": reason}))
        waking.adopt("main", 0, self.who.incarnation, "s-1", reason)

    def begin(self, who: Caller, key: str) -> Begun:
        """What another machine does."""
        return self._do(self._desk.begin(who, key, retry=False))

    def end(self, who: Caller, number: int, payload: bytes, *, ok: bool = True) -> None:
        """What the machine that lives on does when its function returns."""

        async def end() -> None:
            self._desk.end(who, number, ok=ok, payload=payload)

        self._do(end())

    def entries(self) -> list[Entry]:
        """What is in the ledger."""

        async def entries() -> list[Entry]:
            return self._ledger.entries("s-1")

        return self._do(entries())

    def states(self) -> list[OutcomeState | None]:
        """How what was let through has ended."""
        return [
            entry.outcome and entry.outcome.state
            for entry in self.entries()
            if entry.draft.decision == "allowed"
        ]

    def _do(self, asked: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(120)

    async def _open(self) -> None:
        self._ledger = Ledger.open(self._ledger_path)
        self._desk = OnceDesk(self._ledger, lambda incarnation: incarnation in self._alive)
        self._calls = OnceCalls(self._desk)
        self._server = await asyncio.start_unix_server(
            self._serve, str(self._address), limit=1 << 26
        )

    async def _close(self) -> None:
        self._server.close()
        for call in (*self._waiting, *self._sources):
            call.gone.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=120)
        self._ledger.close()

    async def _wake(self, source: Caller, reason: str, *, source_lives: bool) -> None:
        self._alive.add(self.who.incarnation)
        woken = {"status": "woken", "reason": reason, "branch": "main", "index": 0}
        woken |= {"incarnation": self.who.incarnation, "session": "s-1"}
        if not source_lives:
            self._alive.discard(source.incarnation)
            await self._desk.ended(source.incarnation)
        for call in list(self._waiting):
            # To the host it is still the call of the machine that was saved.
            call.is_the_source_s = source_lives
            self._answer(call, woken)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = _Call(writer)
        self._waiting.add(call)
        request = json.loads(await reader.readline())
        self.requests.append(request)
        answering = asyncio.create_task(self._answer_to(call, request))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self._waiting.discard(call)
        writer.close()
        if call.is_the_source_s:
            self._sources.append(call)
        else:
            call.gone.set()
        await answering

    async def _answer_to(self, call: _Call, request: Message) -> None:
        if request["do"] != "once":
            # Whatever it is, the machine is woken meanwhile.
            await call.gone.wait()
            return
        try:
            self._check_disk(request)
            value = await self._calls.answer(self.who, request, call.gone)
        except BranchpointError as error:
            answer: Message = {"status": "error", "ename": type(error).__name__}
            self._answer(call, answer | {"evalue": str(error), "hint": error.hint})
        else:
            if value is not None:
                self._answer(call, {"status": "ok", "data": None, "value": value})

    def _check_disk(self, request: Message) -> None:
        if request["step"] == "end" and self.refuse_ends:
            self.refuse_ends -= 1
            raise BranchpointError("the disk is full", hint="free some")

    def _answer(self, call: _Call, answer: Message) -> None:
        if call in self._waiting and not call.writer.is_closing():
            self._waiting.discard(call)
            call.writer.write(json.dumps(answer).encode() + b"\n")
