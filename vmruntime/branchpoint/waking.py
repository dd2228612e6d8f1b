"""Who this machine is by now, and what is to be called when it wakes as another."""

import json
import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from branchpoint.errors import BranchpointError, outside

IDENTITY = "/run/branchpoint/identity.json"
_THREAD_NAME = "branchpoint-on-wake"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which branch a machine is, by its last waking.

    `index` is 0 for the first branch of a session, else its number among the forks it was made
    with. `incarnation` is another after every fork, rollback and resume. `reason` is why it woke:
    "start", "fork", "rollback", "reopen" or "peek".
    """

    name: str
    index: int
    incarnation: str
    session: str
    reason: str


Returned = TypeVar("Returned")

# What must not go on in another machine: called with the incarnation that it is by now.
to_stop: set[Callable[[str], None]] = set()

_callbacks: list[Callable[[Identity], object]] = []
# Process, and fields of an Identity: made when it is asked for, to keep waking short.
_told: tuple[int, tuple[str, int, str, str, str]] | None = None
# The callbacks of the last waking: set once they are done.
_done = threading.Event()
_done.set()
_thread: threading.Thread | None = None


def identity() -> Identity:
    """Which branch this is, as of now. BranchpointError outside a machine."""
    if _told is not None and _told[0] == os.getpid():
        return Identity(*_told[1])
    try:
        with open(IDENTITY, encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs as much again)
            facts = json.load(file)
    except FileNotFoundError:
        raise outside() from None
    return Identity(
        name=facts["branch"],
        index=int(facts["index"]),
        incarnation=facts["incarnation"],
        session=facts["session"],
        reason=facts.get("reason", ""),
    )


def on_wake(callback: Callable[[Identity], Returned]) -> Callable[[Identity], Returned]:
    """Have `callback(identity)` called after each waking of this machine; usable as a decorator.

    In a thread of its own, in the order they were given. What one raises is printed, and the others
    are called all the same. A call that waited while the machine was saved, such as `fork`, returns
    after all of them. Only in the notebook's kernel: BranchpointError in any other process.
    """
    if not is_told():
        raise BranchpointError("on_wake works in the notebook's Python kernel")
    _callbacks.append(callback)
    return callback


def adopt(name: str, index: int, incarnation: str, session: str, reason: str) -> None:
    """Be this from now on; `run_callbacks` must follow. For the hook, which is told by guestd."""
    global _told, _done
    _told = (os.getpid(), (name, index, incarnation, session, reason))
    if _callbacks:
        _done = threading.Event()
    if to_stop and reason != "peek":
        stop_what_runs(incarnation)


def stop_what_runs(incarnation: str) -> None:
    """Stop what began in another incarnation. For whoever learns first that the machine woke."""
    for stop in tuple(to_stop):
        stop(incarnation)


def run_callbacks() -> None:
    """Begin to call what was given to `on_wake`. For the hook, once it has answered guestd.

    In a thread of their own: the hook must be there for the next waking however long they take.
    """
    global _thread
    if _done.is_set() or _told is None:
        return
    arguments = (tuple(_callbacks), Identity(*_told[1]), _thread, _done)
    thread = threading.Thread(target=_call, args=arguments, name=_THREAD_NAME, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # Out of threads, which is the user's to see; the hook must live, and nobody wait for ever.
        traceback.print_exc()
        _done.set()
    else:
        _thread = thread


def wait_for_callbacks() -> None:
    """Wait until those of the last waking are done; one of them that asks is not kept waiting."""
    if is_told() and threading.current_thread().name != _THREAD_NAME:
        _done.wait()


def is_told() -> bool:
    """Whether the hook runs in this very process, not in one it was forked from."""
    return _told is not None and _told[0] == os.getpid()


def _call(
    callbacks: tuple[Callable[[Identity], object], ...],
    who: Identity,
    before: threading.Thread | None,
    done: threading.Event,
) -> None:
    if before is not None:
        before.join()
    for callback in callbacks:
        try:
            callback(who)
        except BaseException:
            traceback.print_exc()
    done.set()
