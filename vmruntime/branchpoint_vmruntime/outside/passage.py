"""What passes of one request or tunnel, and what that comes to when it ends."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from branchpoint_vmruntime.errors import StreamResetError
from branchpoint_vmruntime.ledger import EntryKind, Outcome, OutcomeState, Usage
from branchpoint_vmruntime.outside.wire import CHUNK_BYTES, Wire

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_REFUSALS = (401, 403, 407, 429)
_LEAST_FAULT = 500


@dataclass(slots=True)
class Passage:
    """What has passed so far of a request or a tunnel. `safe`: it changes nothing over there."""

    safe: bool
    kind: EntryKind = EntryKind.REQUEST
    sent_bytes: int = 0
    received_bytes: int = 0
    status: int | None = None
    usage: Usage | None = None
    note: str = ""
    is_whole: bool = False
    began: float = field(default_factory=time.monotonic)

    def ended(self) -> Outcome:
        """The outcome of one that came to its end."""
        return self._outcome(_state_after(self.status, safe=self.safe), self.note)

    def failed(self, error: BaseException) -> Outcome:
        """The outcome of one that `error` ended, unless the reply had come whole before."""
        if self.is_whole:
            return self.ended()
        return self._outcome(self._state_after(error), self.note or _words(error))

    def _state_after(self, error: BaseException) -> OutcomeState:
        if not self.sent_bytes:
            return OutcomeState.FAILED
        if self.kind is EntryKind.TUNNEL:
            # Programs often end a connection so, when they have all they want of it.
            is_over = isinstance(error, StreamResetError)
            return OutcomeState.DONE if is_over else OutcomeState.UNKNOWN
        return OutcomeState.FAILED if self.safe else OutcomeState.UNKNOWN

    def _outcome(self, state: OutcomeState, note: str) -> Outcome:
        return Outcome(
            at=datetime.now(UTC),
            state=state,
            status=self.status,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
            duration_ms=(time.monotonic() - self.began) * 1000,
            usage=self.usage,
            note=note,
        )


class Counted:
    """A server's wire, which tells what passes."""

    def __init__(self, wire: Wire, passage: Passage, moved: Callable[[], None]) -> None:
        self._wire = wire
        self._passage = passage
        self._moved = moved

    async def read(self, limit: int = CHUNK_BYTES) -> bytes:
        """Some bytes as they come; none at the end."""
        data = await self._wire.read(limit)
        self._passage.received_bytes += len(data)
        self._moved()
        return data

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room."""
        # Counted before, since of a write that is cut off nobody knows how much has left.
        self._passage.sent_bytes += len(data)
        await self._wire.write(data)
        self._moved()

    async def finish(self) -> None:
        """Say that no more will be sent."""
        await self._wire.finish()

    async def close(self) -> None:
        """End it both ways, at once."""
        await self._wire.close()


def _state_after(status: int | None, *, safe: bool) -> OutcomeState:
    if status is None or safe:
        return OutcomeState.DONE
    if status in _REFUSALS:
        return OutcomeState.REFUSED
    return OutcomeState.UNKNOWN if status >= _LEAST_FAULT else OutcomeState.DONE


def _words(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cut off with its machine"
    return str(error) or type(error).__name__
