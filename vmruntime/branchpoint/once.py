"""Do something outside at most once, whatever is rolled back or forked."""

import base64
import inspect
import os
import pickle
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from branchpoint.calls import Done, Message, Woken, ask, ask_in_loop, hold
from branchpoint.errors import BranchpointError
from branchpoint.interruption import Interrupted, Run, TaskRun, ThreadRun
from branchpoint.operations import woken_instead
from branchpoint.waking import is_told

Value = TypeVar("Value")


class UnknownOutcomeError(BranchpointError):
    """What was begun under `key` was cut off: it may have taken effect, and nobody knows."""

    def __init__(self, message: str, *, key: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint, kind="UnknownOutcomeError")
        self.key = key


@dataclass(frozen=True, slots=True)
class NotKept:
    """On record in place of a result that could not be kept."""

    why: str


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a function ended."""

    value: Any = None
    error: BaseException | None = None

    def give(self) -> Any:
        """What its caller gets."""
        if self.error is not None:
            raise self.error
        return self.value


@overload
def once(
    key: str, function: Callable[[], Coroutine[Any, Any, Value]], *, retry: bool = False
) -> Awaitable[Value]: ...
@overload
def once(key: str, function: Callable[[], Value], *, retry: bool = False) -> Value: ...
def once(key: str, function: Callable[[], Any], *, retry: bool = False) -> Any:
    """Call `function` unless that was done under `key`; what it returned then is returned again.

    At most once in a notebook's session, from whatever branch and after whatever rollback; pickled,
    its result outlives them all. What it raised is raised again. While another is at it, this waits
    for its outcome. A coroutine function is to be awaited.

    Raises UnknownOutcomeError if it was cut off in the middle, by a rollback or the end of its
    machine or process. `retry` runs anew one that raised or was cut off.
    """
    if inspect.iscoroutinefunction(function):
        return _once_in_task(key, function, retry=retry)
    while True:
        run = ThreadRun(key)
        try:
            ended = _attempt(run, function, retry=retry)
            if ended is not None:
                return ended.give()
        except Interrupted:
            pass
        finally:
            run.close()
        run.leave_if_stopped()
        # It was meant for what was there before, not for what the machine woke to.
        retry = False


def accept(key: str, result: object = None) -> None:
    """Say of what was cut off or raised under `key` that it took effect, with that result.

    BranchpointError unless it was cut off or raised.
    """
    payload = base64.b64encode(_packed_value(result)).decode()
    answer = ask({"do": "once", "step": "accept", "key": key, "payload": payload})
    if isinstance(answer, Woken):
        raise woken_instead(answer, "accept")


async def _once_in_task(
    key: str, function: Callable[[], Coroutine[Any, Any, Value]], *, retry: bool
) -> Value:
    while True:
        run = TaskRun(key)
        try:
            ended = await _attempt_in_task(run, function, retry=retry)
            if ended is not None:
                return ended.give()
        except Interrupted:
            pass
        finally:
            run.close()
        run.leave_if_stopped()
        retry = False


def _attempt(run: ThreadRun, function: Callable[[], object], *, retry: bool) -> _Ended | None:
    """How it ended, now or before; None if that is to be asked anew."""
    with _held(run) as ticket:
        before = _understand(run, ask(_begin(run, ticket, retry=retry)))
        if not isinstance(before, int):
            return before
        try:
            with run:
                ended = _returned(function())
        except Interrupted:
            raise
        except BaseException as error:
            ended = _Ended(error=error)
        recording = _Recording(run, before, ended)
        while (message := recording.message()) is not None:
            try:
                recording.answered(ask(message))
            except BranchpointError as error:
                recording.refused(error)
        return recording.result


async def _attempt_in_task(
    run: TaskRun, function: Callable[[], Coroutine[Any, Any, object]], *, retry: bool
) -> _Ended | None:
    with _held(run) as ticket:
        before = _understand(run, await ask_in_loop(_begin(run, ticket, retry=retry)))
        if not isinstance(before, int):
            return before
        try:
            with run:
                ended = _returned(await run.guard(function()))
        except (Interrupted, GeneratorExit):
            raise
        except BaseException as error:
            ended = _Ended(error=error)
        recording = _Recording(run, before, ended)
        while (message := recording.message()) is not None:
            try:
                recording.answered(await ask_in_loop(message))
            except BranchpointError as error:
                recording.refused(error)
        return recording.result


class _Recording:
    """Has an outcome written down: as it is, or that it could not be kept."""

    def __init__(self, run: Run, number: int, ended: _Ended) -> None:
        self.result: _Ended | None = None
        self._run = run
        self._number = number
        self._ended = ended
        why = "it was too large, or the host could not write it down"
        # A function that went on in another machine has nothing to tell.
        self._payloads = [] if run.interrupted else [_packed(ended), pickle.dumps(NotKept(why))]

    def message(self) -> Message | None:
        """What to tell the host next; None if there is no more to tell."""
        if not self._payloads:
            return None
        payload = base64.b64encode(self._payloads.pop(0)).decode()
        facts = {"number": self._number, "ok": self._ended.error is None, "payload": payload}
        return {"do": "once", "step": "end", **facts}

    def answered(self, answer: Done | Woken) -> None:
        """The host has an outcome: this one, unless another was there first."""
        self._payloads.clear()
        expected = "done" if self._ended.error is None else "failed"
        is_taken = isinstance(answer, Done) and answer.value["state"] == expected
        if is_taken and not self._run.interrupted:
            self.result = self._ended

    def refused(self, error: BranchpointError) -> None:
        """The host did not take it. Raises if there is nothing else to offer."""
        if not self._payloads:
            raise BranchpointError(
                f"once({self._run.key!r}) has run, and its outcome could not be recorded: {error}",
                hint=error.hint,
            ) from self._ended.error


@contextmanager
def _held(run: Run) -> Generator[str]:
    """For as long as this process lives and is at it, the host is told so under a ticket."""
    ticket = os.urandom(8).hex()
    connection = hold({"do": "once", "step": "hold", "ticket": ticket})
    if not is_told():
        # No hook stops anything in this process: guestd tells those whose calls are open.
        threading.Thread(target=_watch, args=(connection, run), daemon=True).start()
    try:
        yield ticket
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def _watch(connection: socket.socket, run: Run) -> None:
    with suppress(OSError):
        if connection.recv(1):
            run.stop()


def _begin(run: Run, ticket: str, *, retry: bool) -> Message:
    if run.is_inside_itself():
        raise BranchpointError(f"once({run.key!r}) is under way in the very function that asks")
    return {"do": "once", "step": "begin", "key": run.key, "retry": retry, "ticket": ticket}


def _understand(run: Run, answer: Done | Woken) -> "int | _Ended | None":
    """The number to run it as, or how it ended before; None if that is to be asked anew."""
    if isinstance(answer, Woken):
        return None
    facts, key = answer.value, run.key
    match facts["state"]:
        case "run":
            return int(facts["number"])
        case "done":
            return _Ended(value=_result(key, facts["payload"]))
        case "failed":
            return _Ended(error=_error(key, facts["payload"]))
        case _:
            raise UnknownOutcomeError(
                facts["words"],
                key=key,
                hint=f"if it did not take effect: once({key!r}, function, retry=True);"
                f" if it did: branchpoint.accept({key!r}, result), or %ledger --accept {key}",
            )


def _returned(value: object) -> _Ended:
    if inspect.iscoroutine(value):
        value.close()
        raise BranchpointError(
            "the function returned a coroutine, which has not run",
            hint="give `once` the coroutine function itself",
        )
    return _Ended(value=value)


def _packed(ended: _Ended) -> bytes:
    if ended.error is not None:
        return _packed_error(ended.error)
    return _packed_value(ended.value)


def _packed_value(value: object) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        kind = type(value).__name__
        return pickle.dumps(NotKept(f"a {kind} cannot be pickled: {_words(error)}"))


def _packed_error(error: BaseException) -> bytes:
    # What ends a program, such as an interrupt, is not to end another.
    if isinstance(error, Exception):
        with suppress(Exception):
            payload = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
            # Some can be pickled and not taken out again.
            pickle.loads(payload)
            return payload
    return pickle.dumps(BranchpointError(f"it was ended by {_words(error)}"))


def _result(key: str, payload: str | None) -> object:
    if payload is None:
        return None
    value = _unpacked(key, payload)
    if isinstance(value, NotKept):
        raise BranchpointError(
            f"once({key!r}) has taken effect, and its result was not kept: {value.why}",
            hint="return what can be pickled, such as texts and numbers",
        )
    return value


def _error(key: str, payload: str | None) -> BaseException:
    error = _unpacked(key, payload or "")
    if not isinstance(error, BaseException):
        error = BranchpointError("it raised, and what it raised was not kept")
    error.add_note(f"once({key!r}) raised this when it ran; retry=True runs it anew")
    return error


def _unpacked(key: str, payload: str) -> object:
    try:
        return pickle.loads(base64.b64decode(payload))
    except Exception as error:
        raise BranchpointError(
            f"once({key!r}) has run, and what is on record cannot be read here: {_words(error)}",
            hint="define the classes it is made of before",
        ) from error


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
