"""What must not go on in a machine that woke in its middle: it is stopped there, before it acts."""

import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Generic, TypeVar

from branchpoint.waking import identity, to_stop

Value = TypeVar("Value")


class Interrupted(BaseException):
    """Raised where a function is stopped. Not an Exception: nobody is to handle it but `once`."""


class Run:
    """A function being run for a key. In a `with`, it is stopped when the machine wakes anew.

    `interrupted` once the machine has woken anew since this was made: what was learnt from outside
    may no longer be so. `close` must follow, where it was made. BranchpointError outside a machine.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.thread = threading.get_ident()
        self.interrupted = False
        self.inside_of = _current.get()
        self._raise_in = _async_raise()
        self._has_raised = False
        self._lock = threading.Lock()
        self._armed = False
        self.closed = False
        self._token: Token[Run | None] | None = None
        self._incarnation = ""
        to_stop.add(self.stop)
        try:
            # After that: a waking in between is to be noticed.
            self._incarnation = identity().incarnation
        except BaseException:
            to_stop.discard(self.stop)
            raise

    @property
    def outer(self) -> "Run | None":
        """The run that this one is inside of."""
        run = self.inside_of
        while run is not None and run.closed:
            run = run.inside_of
        return run

    def close(self) -> None:
        """Nothing of it is left to be stopped."""
        self.closed = True
        to_stop.discard(self.stop)
        if self._token is not None:
            _current.reset(self._token)
            self._token = None

    def stop(self, incarnation: str = "") -> None:
        """For whoever knows that the machine is another by now; more than once is as once."""
        if incarnation == self._incarnation:
            return
        if outer := self.outer:
            outer.stop(incarnation)
        with self._lock:
            if not self.interrupted:
                self.interrupted = True
                if self._armed:
                    self._interrupt()

    def leave_if_stopped(self) -> None:
        """Raise Interrupted if what this is inside of must not go on either."""
        if (outer := self.outer) and outer.interrupted:
            raise Interrupted from None

    def is_inside_itself(self) -> bool:
        """Whether this is inside of another run for the same key."""
        run = self.outer
        while run is not None and run.key != self.key:
            run = run.outer
        return run is not None

    def _arm(self) -> None:
        self._token = _current.set(self)
        with self._lock:
            self._armed = True
            interrupted = self.interrupted
        if interrupted:
            # It woke before there was anything to stop.
            raise Interrupted

    def _disarm(self) -> None:
        with self._lock:
            self._armed = False

    def stops(self, other: "Run") -> bool:
        """Whether what stops this one stops the other, inside of it, as well."""
        raise NotImplementedError

    def _interrupt(self) -> None:
        raise NotImplementedError

    def _is_stopped_with_outer(self) -> bool:
        # Two exceptions, one upon the other, would end what cleans up after the first.
        run = self.outer
        while run is not None and not run.stops(self):
            run = run.outer
        return run is not None

    def _raise(self) -> None:
        self._has_raised = True
        self._raise_in(self.thread, Interrupted)

    def _take_back(self) -> None:
        # What runs may have ended by itself just then: nothing may reach whoever called it.
        if self._has_raised:
            self._raise_in(self.thread, None)


_current: ContextVar[Run | None] = ContextVar("branchpoint-run", default=None)


def is_inside_run() -> bool:
    """Whether the caller would be stopped when the machine wakes anew."""
    run = _current.get()
    return run is not None and not run.closed


class ThreadRun(Run):
    """A function that runs in this very thread."""

    def __enter__(self) -> "ThreadRun":
        self._arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._disarm()
        self._take_back()

    def stops(self, other: Run) -> bool:
        """One exception ends all that runs in a thread."""
        return other.thread == self.thread

    def _interrupt(self) -> None:
        if not self._is_stopped_with_outer():
            self._raise()


class TaskRun(Run):
    """A coroutine function that runs in this very task of asyncio."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        asyncio = sys.modules["asyncio"]
        self._loop: Any = asyncio.get_running_loop()
        self.task: Any = asyncio.current_task()
        self._cancelled_error: type[BaseException] = asyncio.CancelledError
        self._cancels_before: int = self.task.cancelling()
        self._told = False
        self._cancelled = False
        self._steps = False

    def __enter__(self) -> "TaskRun":
        self._arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._disarm()
        if not self._cancelled:
            return
        cancels = self.task.uncancel()
        if isinstance(error, self._cancelled_error) and cancels <= self._cancels_before:
            raise Interrupted from error

    def guard(self, coroutine: Coroutine[Any, Any, Value]) -> "Guarded[Value]":
        """The same, but that it takes no step in another machine."""
        return Guarded(self, coroutine)

    def begin_step(self) -> bool:
        """Whether the coroutine is to be stopped instead."""
        with self._lock:
            self._steps = True
            return self._is_to_be_told()

    def end_step(self) -> None:
        """It has ended, or waits for something."""
        with self._lock:
            self._steps = False
        self._take_back()

    def stops(self, other: Run) -> bool:
        """One exception ends all that a step is made of, and one cancellation a task."""
        if self._steps:
            return other.thread == self.thread
        return isinstance(other, TaskRun) and other.task is self.task

    def _interrupt(self) -> None:
        if self._is_stopped_with_outer():
            return
        if self._steps:
            self._told = True
            self._raise()
        else:
            # What it waits for may never come.
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._armed and self._is_to_be_told():
            self._cancelled = True
            self.task.cancel()

    def _is_to_be_told(self) -> bool:
        told, self._told = self._told, self.interrupted
        return self.interrupted and not told


class Guarded(Generic[Value]):
    """Awaits a coroutine, step by step."""

    def __init__(self, run: TaskRun, coroutine: Coroutine[Any, Any, Value]) -> None:
        self._run = run
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Value]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                awaited = self._step(value, error)
            except StopIteration as stop:
                return stop.value
            except Interrupted as stopped:
                if getattr(self._coroutine, "cr_frame", None) is None:
                    raise
                # It came too late for the step, which has ended: the next one is told.
                value, error = None, stopped
                continue
            value = error = None
            try:
                value = yield awaited
            except BaseException as raised:
                error = raised

    def _step(self, value: object, error: BaseException | None) -> object:
        try:
            if self._run.begin_step():
                error = error or Interrupted()
            if error is not None:
                return self._coroutine.throw(error)
            return self._coroutine.send(value)
        finally:
            self._run.end_step()


_prepared: Callable[[int, type[BaseException] | None], None] | None = None


def _async_raise() -> Callable[[int, type[BaseException] | None], None]:
    """Raises in another thread at its next step; None takes back what has not been raised yet."""
    global _prepared
    if _prepared is None:
        import ctypes  # noqa: PLC0415 (slow to import, and a wake has no time for it)

        set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)

        def send(thread: int, kind: type[BaseException] | None) -> None:
            set_async_exc(thread, ctypes.py_object(kind) if kind else ctypes.py_object())

        _prepared = send
    return _prepared
