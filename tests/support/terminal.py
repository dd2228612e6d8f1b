"""Someone at a terminal: a program on a pty, typed at, and what it wrote read back."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

# What readline-like editors write when they begin and end to read a line.
PROMPTS = b"\x1b[?2004h"
TAKEN = b"\x1b[?2004l"
_PASTE = (b"\x1b[200~", b"\x1b[201~")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_SIZE = struct.pack("HHHH", 200, 200, 0, 0)


class Terminal:
    """A program's terminal."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._fd = fd
        self.shown = b""
        self._seen = 0

    def wait_prompt(self, *, patience_s: float = 120.0) -> str:
        """Wait until it asks for a line; what it wrote between taking the last one and that."""
        before = self._read_past(PROMPTS, patience_s)
        return _plain(before.rpartition(TAKEN)[2].removesuffix(PROMPTS))

    def wait_output(self, wanted: str) -> None:
        """Wait until it has taken the last line and written something."""
        self._read_past(TAKEN, 120)
        self._read_past(wanted.encode(), 120)

    def enter(self, text: str) -> str:
        """Submit text; what was written until the next prompt."""
        self.submit(text)
        return self.wait_prompt()

    def submit(self, text: str) -> None:
        """Type text and Enter, as one paste."""
        # A cell that ends indented ends with an empty line.
        self.press(_PASTE[0] + text.rstrip("\n").encode() + b"\n\n" + _PASTE[1] + b"\r")

    def press(self, keys: bytes) -> None:
        """Press keys."""
        while keys:
            keys = keys[os.write(self._fd, keys[:1024]) :]
            self._take(0)

    def _read_past(self, mark: bytes, patience_s: float) -> bytes:
        deadline = time.monotonic() + patience_s
        while (at := self.shown.find(mark, self._seen)) < 0:
            left = deadline - time.monotonic()
            arrived = left > 0 and self._take(left)
            assert arrived, _plain(self.shown[-3000:])
        start, self._seen = self._seen, at + len(mark)
        return self.shown[start : self._seen]

    def _take(self, within_s: float) -> bool:
        if not select.select([self._fd], [], [], within_s)[0]:
            return False
        try:
            self.shown += os.read(self._fd, 1 << 16)
        except OSError:
            return False
        return True


def _plain(written: bytes) -> str:
    return _ESCAPES.sub("", written.decode(errors="replace")).replace("\r\n", "\n")


@contextmanager
def at_a_terminal(argv: Sequence[str], cwd: Path, **environment: str) -> Generator[Terminal]:
    """Run a program on a pty of its own; ended on leaving, if it still runs."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, _SIZE)
    # Its controlling terminal too, so that ^C is a signal.
    process = subprocess.Popen(
        ["setsid", "--ctty", *argv],
        cwd=cwd,
        env=os.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"} | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)
