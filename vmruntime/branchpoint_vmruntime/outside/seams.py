"""What the proxy needs of the rest of a session's edge."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from branchpoint_vmruntime.ledger import Draft, Outcome, Usage
from branchpoint_vmruntime.ledger.replay import Admission, RecordedReply
from branchpoint_vmruntime.outside.authority import Authority
from branchpoint_vmruntime.outside.crossings import Crossings
from branchpoint_vmruntime.outside.facts import Who
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.policy import Policies
from branchpoint_vmruntime.outside.room import Room
from branchpoint_vmruntime.outside.tasks import Lasting
from branchpoint_vmruntime.outside.upstream import Upstream
from branchpoint_vmruntime.outside.vault import Injected


class Book(Protocol):
    """The ledger, to be written in. StorageError."""

    def begin(self, draft: Draft) -> int:
        """Write durably that something is about to be done."""
        ...

    def end(self, number: int, outcome: Outcome) -> None:
        """Write how it ended."""
        ...

    def note(self, draft: Draft, outcome: Outcome | None = None) -> int:
        """Both as one."""
        ...


class Desk(Protocol):
    """Where requests that bear a key are let through once."""

    async def begin(self, draft: Draft, *, retry: bool) -> Admission:
        """Whether to send it, to give the recorded reply again, or to refuse."""
        ...

    def finish(self, number: int, outcome: Outcome, reply: RecordedReply | None) -> None:
        """How one that was let through has ended."""
        ...


class Injector(Protocol):
    """The vault, which puts secrets into requests."""

    def needs(self, host: str) -> bool:
        """Whether a secret is bound to `HOST:PORT`."""
        ...

    def inject(self, branch: str, host: str, target: bytes, headers: Headers) -> Injected:
        """A request's head as it goes out; RefusedError."""
        ...


class Counter(Protocol):
    """Reads the usage out of one reply. Never fails."""

    def feed(self, data: bytes) -> None:
        """The next piece of its body as it came."""
        ...

    def usage(self) -> Usage | None:
        """What the reply counted; None if it did not."""
        ...


class Counting(Protocol):
    """Knows which requests are calls of a model."""

    def is_model_call(self, method: str, path: str) -> bool:
        """Whether this is one."""
        ...

    def meter(self, path: str, content_type: str, content_encoding: str) -> Counter | None:
        """What reads the reply to it; None if it bears no usage."""
        ...


class Purse(Protocol):
    """The budgets."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget for what models cost."""
        ...

    def check(self, who: Who) -> None:
        """BudgetError before a model is called for nothing that is left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a peer may do nothing, in seconds."""

    idle_s: float = 600.0
    hello_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """All that one request may need.

    `lent` are values for `Authorization`, by group, scheme, host and port. In `room` is what is
    held of requests that bear a key. `turns` are for calls of models under a budget.
    """

    policies: Policies
    ledger: Book
    replay: Desk
    vault: Injector
    metering: Counting
    limits: Purse
    authority: Authority
    upstream: Upstream
    patience: Patience
    crossings: Crossings
    lasting: Lasting
    room: Room
    turns: asyncio.Semaphore
    lent: Mapping[tuple[str, str, str, int], bytes]
