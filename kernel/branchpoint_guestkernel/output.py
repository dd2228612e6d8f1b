"""Makes code that prints faster than the relay carries wait, instead of filling the guest's memory.

ipykernel keeps all that is printed within 0.2 s for one message, and all messages until someone
takes them. Here whoever prints or displays waits while too much is on its way, as at a terminal,
and what is joined is sent on when it is large. Less output than that is not touched.

What child processes write to the kernel's standard files is read in large pieces, and not written
to the guest's console as well: an emulated serial line takes 100 kB a second.
"""

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipykernel import iostream
from ipykernel.connect import get_connection_file

from branchpoint_guestkernel.backlog import Backlog
from branchpoint_guestkernel.sockets import DELIMITER

# On its way to the relay, before whoever prints more has to wait.
ROOM_BYTES = 8 << 20
# Joined into one message of a stream.
JOINED_CHARACTERS = 4 << 20
WAIT_S = 0.005
# What a pipe holds.
PIPE_BYTES = 64 << 10

# Their end would close the descriptor that ipykernel writes to.
_replaced: list[Any] = []


class Publishing:
    """Stands in for `send_multipart` of ipykernel's output thread: counts, and waits for room.

    The output thread itself never waits, since it is what makes room. Nor does control: it is to
    answer whatever the user's code does.
    """

    def __init__(self, kernel: Any, backlog: Backlog) -> None:
        self._send_multipart: Callable[..., None] = kernel.iopub_thread.send_multipart
        self._backlog = backlog
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._never_waiting = frozenset((kernel.iopub_thread.thread, kernel.control_thread))

    def wait_for_room(self) -> None:
        """Return once the relay is not far behind. An interrupt ends the wait."""
        while self._backlog.waiting_bytes > ROOM_BYTES:
            if threading.current_thread() in self._never_waiting:
                return
            time.sleep(WAIT_S)

    def send_multipart(self, frames: Sequence[Any], *arguments: Any, **options: Any) -> None:
        """Have a message sent by the output thread."""
        self.wait_for_room()
        # What a forked process publishes comes by here again, in the process it was forked from.
        if os.getpid() == self._pid:
            said = frames[frames.index(DELIMITER) + 2 :]
            size = sum(memoryview(frame).nbytes for frame in said)
            with self._lock:
                self._backlog.add_published(size)
        self._send_multipart(frames, *arguments, **options)


class Printing:
    """Stands in for `write` of one of ipykernel's streams."""

    def __init__(self, stream: Any, publishing: Publishing) -> None:
        self._write: Callable[[str], int | None] = stream.write
        self._flush: Callable[[], None] = stream.flush
        self._publishing = publishing
        self._joined = 0

    def write(self, text: str) -> int | None:
        """Print, in pieces if there is much of it; as ipykernel's in every other way."""
        if not isinstance(text, str) or len(text) <= JOINED_CHARACTERS:  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._write_piece(text)
        for start in range(0, len(text), JOINED_CHARACTERS):
            self._write_piece(text[start : start + JOINED_CHARACTERS])
        return len(text)

    def _write_piece(self, text: str) -> int | None:
        self._publishing.wait_for_room()
        written = self._write(text)
        self._joined += len(text)
        if self._joined >= JOINED_CHARACTERS:
            self._joined = 0
            self._flush()
        return written


def limit_output(shell: Any) -> None:
    """Limit what this kernel has on its way. Does nothing in what is no ipykernel."""
    kernel: Any = getattr(shell, "kernel", None)
    thread = getattr(kernel, "iopub_thread", None)
    if thread is None:
        return
    # At ipykernel's own limit, 1000 messages, libzmq drops what it is given without a word.
    thread.schedule(partial(setattr, thread.socket, "sndhwm", 0))
    publishing = Publishing(kernel, Backlog(Path(get_connection_file())))
    thread.send_multipart = publishing.send_multipart
    iostream.PIPE_BUFFER_SIZE = PIPE_BYTES
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if getattr(stream, "pub_thread", None) is thread:
            stream.write = Printing(stream, publishing).write
            stop_echo(stream, kernel.log.handlers)


def stop_echo(stream: Any, log_handlers: Sequence[Any]) -> None:
    """Keep what is written to a standard file off the console; ipykernel's log stays there."""
    try:
        echo = stream.fileno()
    except io.UnsupportedOperation:
        return
    console = os.dup(echo)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), echo, inheritable=False)
    ours = [handler for handler in log_handlers if handler.stream.fileno() == echo]
    _replaced.extend(handler.setStream(os.fdopen(console, "w")) for handler in ours)
