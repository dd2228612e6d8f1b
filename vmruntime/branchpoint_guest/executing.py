"""Commands that the host's user runs in this guest, each over a stream: `exec_frames` has the form.

They are processes of the user's like those of a terminal in the notebook, and outlast their stream:
when it is cut off, a terminal is hung up; anything else goes on, and what it writes goes nowhere.
"""

import os
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock, Thread
from typing import Protocol

from branchpoint_guest import exec_frames as frames
from branchpoint_guest.exec_frames import ExecFrameError, ExecFrames
from branchpoint_guest.freezer import enter_user_cgroup
from branchpoint_guest.starting import CannotStartError, Started, set_size, start

# What may still be in the pipes of a command that has ended. More is of others that write there.
_MOST_LEFT_BYTES = 1 << 20
_END_OF_INPUT = b"\4"


class GuestStream(Protocol):
    """The guest's end of a stream. Calls wait; OSError once it is cut off."""

    def accept(self) -> None:
        """Take it."""
        ...

    def read(self) -> bytes:
        """Some bytes as they come; none once the host is done."""
        ...

    def write(self, data: bytes, /) -> None:
        """Send."""
        ...

    def finish(self) -> None:
        """Say that no more will be sent."""
        ...

    def close(self) -> None:
        """Be done with it; if it was not finished, the host sees it cut off."""
        ...


def execute(
    stream: GuestStream, _: list[str], *, enter: Callable[[], None] = enter_user_cgroup
) -> None:
    """Serve `exec`: run what the first frame orders; `enter` puts the process where it belongs."""
    stream.accept()
    arriving = _arriving(stream)
    kind, body = next(arriving, (frames.CUT, b""))
    if kind == frames.CUT:
        return
    if kind != frames.RUN:
        raise ExecFrameError("the first frame is no order to run a command")
    try:
        command = Command(stream, start(frames.unpack_order(body), enter))
    except CannotStartError as error:
        stream.write(frames.frame(frames.STATUS, frames.pack_status(error.status, str(error))))
        stream.finish()
        # What it was to read may still be on its way.
        for _frame in arriving:
            pass
        return
    try:
        command.begin()
        for kind, body in arriving:
            command.take(kind, body)
    finally:
        command.hang_up()


def _arriving(stream: GuestStream) -> Iterator[tuple[int, bytes]]:
    """The frames of the host's, until it is gone."""
    reader = ExecFrames(frames.MOST_ORDER_BYTES)
    while data := _read(stream):
        for frame in reader.feed(data):
            reader.most_body_bytes = frames.PIECE_BYTES
            yield frame


def _read(stream: GuestStream) -> bytes:
    try:
        return stream.read()
    except OSError:
        return b""


class Command:
    """A command, and what is carried between it and the host, by a thread of its own."""

    def __init__(self, stream: GuestStream, started: Started) -> None:
        self._stream: GuestStream | None = stream
        self._process = started.process
        self._pidfd = os.pidfd_open(self._process.pid)
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poller = select.poll()
        # Whatever is another descriptor's, or another process's, once it has been closed.
        self._lock = Lock()
        self._has_ended = False
        self._is_left = False
        self._input: int | None = started.input
        self._input_is_watched = False
        self._input_ends = False
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._owed = 0
        self._outputs = dict(started.outputs)
        self._terminal = started.terminal

    def begin(self) -> None:
        """Begin to carry."""
        for fd in (self._wakeup, self._pidfd, *self._outputs):
            self._poller.register(fd, select.POLLIN)
        try:
            Thread(target=self._carry, daemon=True).start()
        except RuntimeError:
            self._process.kill()
            self._process.wait()
            self._close()
            raise

    def take(self, kind: int, body: bytes) -> None:
        """Do what a frame says. ExecFrameError if it says what cannot be."""
        if kind == frames.INPUT:
            self._put(body)
        elif kind == frames.INPUT_END:
            self._input_ends = True
            self._wake()
        elif kind == frames.RESIZE:
            size = frames.unpack_size(body)
            with self._lock:
                if self._terminal is not None:
                    set_size(self._terminal, size)
        elif kind == frames.SIGNAL and len(body) == 1 and body[0] in signal.valid_signals():
            self._send_signal(body[0])
        else:
            raise ExecFrameError(f"a frame of kind {kind} that says nothing to a command")

    def hang_up(self) -> None:
        """Nobody listens any more. The thread goes on until the command has ended."""
        self._is_left = True
        self._wake()

    def _put(self, data: bytes) -> None:
        with self._lock:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if self._waiting_bytes > frames.WINDOW:
                raise ExecFrameError("more input than there is room for")
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._wakeup >= 0:
                os.eventfd_write(self._wakeup, 1)

    def _send_signal(self, number: int) -> None:
        """To all that are in the foreground."""
        with self._lock, suppress(OSError):
            if not self._has_ended:
                group = self._process.pid
                if self._terminal is not None:
                    group = os.tcgetpgrp(self._terminal)
                os.killpg(group, number)

    def _carry(self) -> None:
        """Until the command has ended, and nobody is left who could write where it wrote."""
        try:
            while self._outputs or not self._has_ended:
                self._watch_input()
                for fd, _ in self._poller.poll():
                    self._serve(fd)
        finally:
            if self._stream is not None:
                self._stream.close()
            self._close()

    def _watch_input(self) -> None:
        """Only while there is something to give: it would be ready, or broken, without end."""
        if self._input is not None and self._input_is_watched != bool(self._waiting):
            self._input_is_watched = not self._input_is_watched
            if self._input_is_watched:
                self._poller.register(self._input, select.POLLOUT)
            else:
                self._poller.unregister(self._input)

    def _serve(self, fd: int) -> None:
        if fd == self._wakeup:
            os.eventfd_read(self._wakeup)
            self._note_what_is_new()
        elif fd == self._pidfd:
            self._note_end()
        elif fd == self._input:
            self._feed()
        elif fd in self._outputs:
            self._pass_on(fd)

    def _note_what_is_new(self) -> None:
        if self._is_left and self._stream is not None:
            self._stream = None
            self._close_input()
            if self._terminal is not None:
                self._close_output(self._terminal)
        if self._input is None:
            self._drop_input()
        elif self._input_ends and not self._waiting:
            self._end_input()

    def _feed(self) -> None:
        """Give the command as much of its input as it takes now."""
        if self._input is None or not self._waiting:
            return
        piece = self._waiting[0]
        try:
            count = os.write(self._input, piece)
        except BlockingIOError:
            return
        except OSError:
            # It reads no more, and what comes for it goes nowhere.
            self._close_input()
            self._drop_input()
            return
        with self._lock:
            if count == len(piece):
                self._waiting.popleft()
            else:
                self._waiting[0] = piece[count:]
        self._give_back(count)
        if self._input_ends and not self._waiting:
            self._end_input()

    def _drop_input(self) -> None:
        with self._lock:
            self._waiting.clear()
            count = self._waiting_bytes
        self._give_back(count)

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._waiting_bytes -= count
            self._owed += count
            is_due = self._owed >= frames.WINDOW // 4 or not self._waiting
            owed = self._owed if is_due else 0
            self._owed -= owed
        if owed:
            self._say(frames.TAKEN, frames.pack_count(owed))

    def _end_input(self) -> None:
        self._input_ends = False
        if self._terminal is None:
            self._close_input()
        elif self._input is not None:
            with suppress(OSError):
                os.write(self._input, _END_OF_INPUT)

    def _pass_on(self, fd: int) -> int:
        """Send the host what is there of an output; how much that was."""
        try:
            data = os.read(fd, frames.PIECE_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            # Of a terminal that nobody has open any more.
            data = b""
        if data:
            self._say(self._outputs[fd], data)
        else:
            self._close_output(fd)
        return len(data)

    def _note_end(self) -> None:
        """Tell the host what it still said, and how it ended."""
        with self._lock:
            status = self._process.wait()
            self._has_ended = True
        self._poller.unregister(self._pidfd)
        self._close_input()
        if self._stream is None:
            return
        for fd in list(self._outputs):
            left = _MOST_LEFT_BYTES
            while left > 0 and fd in self._outputs and (count := self._pass_on(fd)):
                left -= count
        self._say(frames.STATUS, frames.pack_status(status))
        with suppress(OSError):
            self._stream.finish()
        self._stream = None

    def _say(self, kind: int, body: bytes) -> None:
        if self._stream is not None:
            try:
                self._stream.write(frames.frame(kind, body))
            except OSError:
                self.hang_up()

    def _close_input(self) -> None:
        if self._input is not None:
            if self._input_is_watched:
                self._poller.unregister(self._input)
            os.close(self._input)
            self._input = None

    def _close_output(self, fd: int) -> None:
        with self._lock:
            if self._outputs.pop(fd, None) is not None:
                self._poller.unregister(fd)
                os.close(fd)
            if fd == self._terminal:
                self._terminal = None

    def _close(self) -> None:
        self._close_input()
        for fd in list(self._outputs):
            self._close_output(fd)
        with self._lock:
            os.close(self._pidfd)
            os.close(self._wakeup)
            self._wakeup = -1


HANDLERS: dict[str, Callable[[GuestStream, list[str]], None]] = {"exec": execute}
