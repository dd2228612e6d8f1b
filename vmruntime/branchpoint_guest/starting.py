"""Starts a command of the host's user as a process of the user's, on pipes or on a terminal."""

import errno
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from branchpoint_guest.exec_frames import ERRORS, OUTPUT, Order, Size
from branchpoint_guest.kernel_process import RUN, user_environment
from branchpoint_guest.outfit import ENVIRONMENT, variables_in
from branchpoint_guest.waking import IDENTITY

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_HOME = b"/root"
# <asm-generic/termbits.h>; Python's termios does not name it.
_IUTF8 = 0o40000
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_TERMINFO = (Path("/etc/terminfo"), Path("/lib/terminfo"), Path("/usr/share/terminfo"))


class CannotStartError(Exception):
    """It was not started; the text is for the host's user, `status` is what a shell would give."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Started(NamedTuple):
    """A process, and our ends of what it reads and writes, none of which waits.

    `outputs` are the kinds of frames for what is read from them. The terminal is one of them.
    """

    process: subprocess.Popen[bytes]
    input: int
    outputs: dict[int, int]
    terminal: int | None


def start(order: Order, enter: Callable[[], None]) -> Started:
    """Start it; CannotStartError, or OSError if the machine lacks what it takes.

    `enter` is called in the new process, to put it where it belongs.
    """
    (to, *outputs), theirs = _pipes() if order.size is None else _terminal(order.size)
    try:
        process = _spawned(order, theirs, enter)
    except BaseException:
        _close_all([to, *outputs])
        raise
    finally:
        _close_all(theirs)
    for fd in (to, *outputs):
        os.set_blocking(fd, False)
    kinds = dict(zip(outputs, (OUTPUT, ERRORS), strict=False))
    return Started(process, to, kinds, outputs[0] if order.size else None)


def environment_of(order: Order, run: Path = RUN, identity: str = IDENTITY) -> dict[bytes, bytes]:
    """The variables of a terminal in the notebook, and those of the order."""
    variables: dict[str, str | None] = {**user_environment()}
    # Each is there once the host has given it.
    with suppress(FileNotFoundError):
        variables |= variables_in((run / ENVIRONMENT).read_text())
    with suppress(FileNotFoundError):
        told = json.loads(Path(identity).read_text())
        variables |= {f"BRANCHPOINT_{name.upper()}": str(value) for name, value in told.items()}
    environment = {
        os.fsencode(name): os.fsencode(value)
        for name, value in variables.items()
        if value is not None
    }
    asked = {name: value for name, value in order.environment.items() if name != b"TERM"}
    terminal = order.environment.get(b"TERM")
    if terminal is not None and _is_known(os.fsdecode(terminal)):
        asked[b"TERM"] = terminal
    return environment | asked


def set_size(terminal: int, size: Size) -> None:
    """Make a terminal so large; the programs on it hear of it."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def _pipes() -> tuple[list[int], list[int]]:
    (reads, to), (output, writes), (errors, complains) = (os.pipe() for _ in range(3))
    return [to, output, errors], [reads, writes, complains]


def _terminal(size: Size) -> tuple[list[int], list[int]]:
    ours, theirs = os.openpty()
    set_size(ours, size)
    modes = termios.tcgetattr(theirs)
    modes[0] |= _IUTF8
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    return [os.dup(ours), ours], [theirs] * 3


def _spawned(order: Order, theirs: list[int], enter: Callable[[], None]) -> subprocess.Popen[bytes]:
    has_terminal = order.size is not None

    def begin() -> None:
        # Whoever started us may have been deaf to some, and a command begins with none ignored.
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        enter()
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    environment = environment_of(order)
    folder = order.folder or _HOME
    try:
        # With a function to call there, the new process is forked. Without one it would be one for
        # which this whole process waits: in vain, once it is among those that are frozen.
        return subprocess.Popen(
            order.argv,
            cwd=folder,
            env=environment,
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            start_new_session=True,
            preexec_fn=begin,
        )
    except subprocess.SubprocessError as error:
        raise CannotStartError(NOT_EXECUTABLE, "it could not be put among the processes") from error
    except OSError as error:
        raise _explained(error, order.argv[0], folder, environment) from error


def _explained(
    error: OSError, program: bytes, folder: bytes, environment: dict[bytes, bytes]
) -> CannotStartError:
    name = os.fsdecode(program)
    if error.filename == folder:
        words = f"{os.fsdecode(folder)}: no folder in the machine to run it in: {error.strerror}"
        return CannotStartError(NOT_EXECUTABLE, words)
    if error.errno == errno.ENOENT or not program:
        place = os.path.join(os.fsdecode(folder), name) if "/" in name else name  # noqa: PTH118
        if program and shutil.which(place, path=os.fsdecode(environment.get(b"PATH", b""))):
            words = f"{name}: what its first line says shall run it is not in the machine"
            return CannotStartError(NOT_EXECUTABLE, words)
        return CannotStartError(NOT_FOUND, f"{name}: there is no such command in the machine")
    if error.errno == errno.ENOEXEC:
        words = f"{name}: it is no program, and has no first line that says what runs it"
        return CannotStartError(NOT_EXECUTABLE, words)
    return CannotStartError(NOT_EXECUTABLE, f"{name}: it cannot be run: {error.strerror}")


def _is_known(terminal: str) -> bool:
    """Whether programs here know such a terminal; the newest ones they do not."""
    if not terminal or "/" in terminal or "\0" in terminal:
        return False
    return any((place / terminal[0] / terminal).exists() for place in _TERMINFO)


def _close_all(descriptors: list[int]) -> None:
    for fd in set(descriptors):
        os.close(fd)
