"""Joins this process's standard streams, its terminal and its signals to a command in a machine."""

import asyncio
import os
import signal
import termios
import threading
import tty
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import Any

from branchpoint_vmruntime.errors import HostError, MachineError
from branchpoint_vmruntime.executing import (
    ExecOutput,
    ExecResult,
    RunningCommand,
    TerminalSize,
)

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2
_READ_BYTES = 32 << 10
_Piece = tuple[int, bytes, "asyncio.Future[None]"]
_USUAL_SIZE = TerminalSize(rows=24, columns=80)
# At a terminal in raw mode Control-C and its like are keys, and not these.
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_END_US = (signal.SIGTERM, signal.SIGHUP)


def terminal_size() -> TerminalSize:
    """The size of the terminal that is standard input, or the usual one if it does not say."""
    try:
        found = os.get_terminal_size(_INPUT)
    except OSError:
        return _USUAL_SIZE
    if not found.lines or not found.columns:
        return _USUAL_SIZE
    return TerminalSize(rows=found.lines, columns=found.columns)


async def attach(running: RunningCommand, *, has_terminal: bool) -> ExecResult:
    """Carry until the command has ended, or this process is told to end.

    Signals go to the command; one that comes twice ends this process, as does one that hangs up its
    terminal. The terminal is as it was before, whatever happens. MachineError if the command is cut
    off from here.
    """
    attached = _Attached(running)
    showing = asyncio.create_task(attached.show())
    with ExitStack() as stack:
        if has_terminal:
            stack.enter_context(attached.heeding(_PASSED_ON, attached.pass_on))
            stack.enter_context(attached.heeding(_END_US, attached.leave))
            stack.enter_context(attached.heeding([signal.SIGWINCH], attached.tell_size))
            stack.enter_context(raw(_INPUT))
            stack.enter_context(attached.heeding([signal.SIGCONT], attached.come_back))
        else:
            stack.enter_context(attached.heeding([*_PASSED_ON, *_END_US], attached.pass_on))
        threading.Thread(target=attached.feed, daemon=True).start()
        try:
            await asyncio.wait([showing, attached.left], return_when=asyncio.FIRST_COMPLETED)
        finally:
            attached.stop()
            showing.cancel()
            await asyncio.wait([showing])
    if attached.left.done():
        # Whatever it came to, nobody is told of it any more.
        await asyncio.gather(showing, return_exceptions=True)
        return attached.left.result()
    return showing.result()


@contextmanager
def raw(fd: int) -> Generator[None]:
    """Have a terminal pass on every key as it is pressed; as it was before, on leaving."""
    before = termios.tcgetattr(fd)
    try:
        _make_raw(fd)
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)


def _make_raw(fd: int) -> None:
    # At once: what has been typed ahead is for the command.
    tty.setraw(fd, termios.TCSANOW)


class _Attached:
    """What comes in, from the keyboard and as signals, and what is shown."""

    def __init__(self, running: RunningCommand) -> None:
        self._running = running
        self._loop = asyncio.get_running_loop()
        self.left: asyncio.Future[ExecResult] = self._loop.create_future()
        self._came: set[int] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._to_write: SimpleQueue[_Piece | None] = SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    async def show(self) -> ExecResult:
        """Write what the command writes, until it has ended."""
        while isinstance(news := await self._running.read(), ExecOutput):
            try:
                await self._written(_ERRORS if news.is_error else _OUTPUT, news.data)
            except BrokenPipeError:
                if not news.is_error:
                    # As a command here would be told that nobody reads what it writes.
                    await self._running.signal(signal.SIGPIPE)
                    return ExecResult(status=128 + signal.SIGPIPE)
            except OSError as error:
                raise HostError(f"what the command writes cannot be written: {error}") from error
        return news

    def feed(self) -> None:
        """Give the command what comes in; a thread's, since reading a file or terminal waits."""
        with suppress(MachineError, CancelledError, RuntimeError):
            while data := _read(_INPUT):
                self._wait_for(self._running.write(data))
            self._wait_for(self._running.finish())

    def pass_on(self, number: int) -> None:
        """A signal is the command's, and the second time ours: it may not heed it."""
        if number in self._came:
            self.leave(number)
        self._came.add(number)
        self._send(self._running.signal(number))

    def leave(self, number: int) -> None:
        """End as one that is ended by that signal."""
        if not self.left.done():
            self.left.set_result(ExecResult(status=128 + number))

    def tell_size(self, _: int) -> None:
        """The terminal has another size."""
        self._send(self._running.resize(terminal_size()))

    def come_back(self, number: int) -> None:
        """Go on after having been stopped: the shell has had the terminal meanwhile."""
        with suppress(termios.error):
            _make_raw(_INPUT)
        self.tell_size(number)

    def stop(self) -> None:
        """Send and write nothing more."""
        for task in self._sending:
            task.cancel()
        self._to_write.put(None)

    @contextmanager
    def heeding(
        self,
        numbers: Sequence[signal.Signals],
        do: Callable[[int], None],
    ) -> Generator[None]:
        """Have signals do that; but those that are ignored here, as under nohup, stay so."""
        heeded = [it for it in numbers if signal.getsignal(it) is not signal.SIG_IGN]
        for number in heeded:
            self._loop.add_signal_handler(number, do, number)
        try:
            yield
        finally:
            for number in heeded:
                self._loop.remove_signal_handler(number)

    def _send(self, sending: Coroutine[Any, Any, None]) -> None:
        async def send() -> None:
            # What is wrong is seen where the command is read.
            with suppress(MachineError):
                await sending

        task = self._loop.create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _wait_for(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            sent = asyncio.run_coroutine_threadsafe(sending, self._loop)
        except RuntimeError:
            sending.close()
            raise
        sent.result()

    async def _written(self, fd: int, data: bytes) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._to_write.put((fd, data, done))
        await done

    def _write(self) -> None:
        """A thread's: whoever reads may not do so for long, and signals are to be heeded."""
        while (piece := self._to_write.get()) is not None:
            fd, data, done = piece
            error: OSError | None = None
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            except OSError as found:
                error = found
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, done, error)


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except OSError:
        # Closed before this process began, or a terminal that is gone.
        return b""
