"""Machines as the ledger's desks see them: who they are, and whether they live."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Value = TypeVar("Value")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in a loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@dataclass(frozen=True)
class Caller:
    """Somebody in a machine."""

    incarnation: str = "inc-1"
    branch: str = "main"
    session: str = "s-1"
    checkpoint: Callable[[], str] = lambda: "aaaa"


class Living:
    """The incarnations whose machines live."""

    def __init__(self) -> None:
        self.gone: set[str] = set()

    def __call__(self, incarnation: str) -> bool:
        return incarnation not in self.gone


async def now_waiting(asked: Coroutine[Any, Any, Value]) -> "asyncio.Task[Value]":
    """A task that has come as far as it can by itself, and waits."""
    task = asyncio.create_task(asked)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task
