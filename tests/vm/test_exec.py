"""`branchpoint exec`: commands in a machine, by the control socket of the session's owner."""

import asyncio
import fcntl
import hashlib
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
from tests.support.session_thread import SessionThread, open_session

from branchpoint_vmruntime.exec_control import exec_at
from branchpoint_vmruntime.executing import ExecOutput, ExecSpec
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.owned_session import OwnedSession

pytestmark = pytest.mark.vm

PATIENCE_S = 120.0
BLOCK = bytes(range(256)) * 4096
CUT_OFF = 255
RAW = termios.ICANON | termios.ECHO | termios.ISIG


@pytest.fixture(scope="module")
def session(home: Home) -> Generator[SessionThread]:
    with open_session(home, "commands") as opened:
        yield opened


def argv(*command: str | bytes, options: Sequence[str] = ()) -> list[str | bytes]:
    return [sys.executable, "-P", "-m", "branchpoint_cli", "exec", *options, "--", *command]


def run(*command: str | bytes, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in the machine to its end."""
    return subprocess.run(
        argv(*command), input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )


def told(*command: str) -> str:
    """What a command says that goes well."""
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@contextmanager
def under_way(*command: str, stdin: bytes = b"") -> Generator[subprocess.Popen[bytes]]:
    """A command that has begun, and says so in its first line; its input does not end."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv(*command), stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(stdin)
        process.stdin.flush()
        assert process.stdout.readline() == b"begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


class Keyboard:
    """Somebody at a terminal at which a command was run."""

    def __init__(self, *command: str) -> None:
        self._fd, self.terminal = pty.openpty()
        self.resize(31, 101)
        self.before = termios.tcgetattr(self.terminal)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv(*command, options=["-t"])],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
        )
        self.shown = b""

    def resize(self, rows: int, columns: int) -> None:
        """Make the window another size."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._fd, keys)

    def wait_shown(self, wanted: bytes) -> None:
        """Wait until that is on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in self.shown:
            assert time.monotonic() < deadline, self.shown[-2000:]
            if select.select([self._fd], [], [], 0.2)[0]:
                self.shown += os.read(self._fd, 65536)

    def wait(self) -> int:
        """Wait for the end; the status."""
        return self.process.wait(PATIENCE_S)

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal takes lines again, as before."""
        return termios.tcgetattr(self.terminal) == self.before

    def close(self) -> None:
        """Go away."""
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self._fd)


@contextmanager
def keyboard(*command: str) -> Generator[Keyboard]:
    """A command run at a terminal."""
    there = Keyboard(*command)
    try:
        yield there
    finally:
        there.close()


def test_a_command_has_its_input_output_errors_arguments_and_status(session: SessionThread) -> None:
    assert session.id
    shell = 'cat; printf "|%s" "$@"; echo err >&2; exit 7'
    done = run("sh", "-c", shell, "-", "grün 🌲", b"\xff\xfe", "", stdin=b"in")
    assert done.stdout == b"in|" + "grün 🌲".encode() + b"|\xff\xfe|"
    assert (done.stderr, done.returncode) == (b"err\n", 7)


def test_a_missing_command_has_a_shells_status(session: SessionThread) -> None:
    assert session.id
    missing = run("no-such-thing")
    assert missing.returncode == 127
    assert b"no-such-thing: there is no such command in the machine" in missing.stderr


def test_it_is_as_at_a_terminal_in_the_notebook(session: SessionThread) -> None:
    code = "import os; print(os.getcwd(), dict(os.environ), open('/proc/self/cgroup').read())"
    there = session.do(lambda it: it.current.run(code, timeout_s=PATIENCE_S)).text
    here = told("python3", "-c", code)
    assert here.partition(" ")[0] == there.partition(" ")[0]
    for name in ("BRANCHPOINT_BRANCH", "BRANCHPOINT_INCARNATION", "https_proxy", "PATH", "HOME"):
        part = here[here.index(f"'{name}'") :].partition(",")[0]
        assert part in there
    assert here.split()[-1] == there.split()[-1]


def test_megabytes_pass_both_ways_while_a_cell_runs(session: SessionThread) -> None:
    async def cell_meanwhile(it: OwnedSession) -> str:
        return (await it.current.run("print(6 * 7)", timeout_s=PATIENCE_S)).text

    with subprocess.Popen(argv("cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(BLOCK[:1000])
        process.stdin.flush()
        assert process.stdout.read(1000) == BLOCK[:1000]
        assert session.do(cell_meanwhile).strip() == "42"
        out, _ = process.communicate(BLOCK * 4, timeout=PATIENCE_S)
    assert hashlib.sha256(out).digest() == hashlib.sha256(BLOCK * 4).digest()


def test_twenty_at_once_have_each_their_own_and_leave_nothing(
    session: SessionThread, home: Home
) -> None:
    async def one(number: int) -> tuple[bytes, int]:
        spec = ExecSpec(argv=["sh", "-c", f"cat; exit {number}"])
        async with exec_at(home.control(session.id), spec) as running:
            await running.write(b"%d" % number)
            await running.finish()
            said = b""
            while isinstance(news := await running.read(), ExecOutput):
                said += news.data
            return said, news.status

    async def all_of_them() -> list[tuple[bytes, int]]:
        return await asyncio.gather(*map(one, range(20)))

    assert asyncio.run(all_of_them()) == [(b"%d" % n, n) for n in range(20)]
    told("sh", "-c", "while ps -eo stat | grep -q ^Z; do sleep 0.1; done")


def test_what_runs_in_the_background_outlasts_the_command_and_can_still_write(
    session: SessionThread,
) -> None:
    assert session.id
    # Not before that command has ended: what it wrote would be told as well.
    waiting = "until test -e /tmp/go; do sleep 0.1; done"
    ticking = "while sleep 0.1; do echo tick; echo tick >> /tmp/ticks; done"
    assert told("sh", "-c", f"{{ {waiting}; {ticking}; }} & echo begun") == "begun"
    for _ in range(2):
        looking = "rm -f /tmp/ticks; touch /tmp/go; until test -s /tmp/ticks; do sleep 0.1; done"
        told("sh", "-c", looking)
    told("pkill", "-f", "echo tick")


def test_a_checkpoint_leaves_a_command_alone_and_a_rollback_cuts_it_off(
    session: SessionThread,
) -> None:
    with under_way("cat", stdin=b"begun\n") as process:
        point = session.do(lambda it: it.checkpoint("under-way"))
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"goes on\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"goes on\n"
        session.do(lambda it: it.rollback(point, safety=False))
        assert process.wait(PATIENCE_S) == CUT_OFF
        words = process.stderr.read().decode()
    assert words == "✗ branch 'main' went back to a checkpoint while the command ran\n"
    assert told("echo", "fine") == "fine"


def test_a_branch_that_is_paused_cuts_commands_off_and_the_next_resumes_it(
    session: SessionThread,
) -> None:
    with under_way("sh", "-c", "echo begun; sleep 1000") as process:
        session.do(lambda it: it.pause())
        assert process.wait(PATIENCE_S) == CUT_OFF
        assert process.stderr is not None
        assert "branch 'main' was paused" in process.stderr.read().decode()
    assert "sleep 1000" in told("ps", "-eo", "args")
    told("pkill", "-f", "sleep 1000")


def test_a_signal_to_the_client_reaches_the_command(session: SessionThread) -> None:
    assert session.id
    shell = "trap 'echo terminated; exit 9' TERM; echo begun; while :; do sleep 0.1; done"
    with under_way("sh", "-c", shell) as process:
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (9, b"terminated\n")


def test_a_terminal_has_its_size_its_keys_and_is_given_back(session: SessionThread) -> None:
    assert session.id
    shell = "trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; stty size; tty; "
    with keyboard("sh", "-c", f"{shell} echo ready; while :; do sleep 0.1; done") as there:
        there.wait_shown(b"ready")
        assert b"31 101\r\n/dev/pts/" in there.shown
        assert not termios.tcgetattr(there.terminal)[3] & RAW
        there.resize(17, 63)
        there.wait_shown(b"17 63")
        there.press(b"\x03")
        assert there.wait() == 5
        assert there.is_as_before


def test_a_client_that_is_ended_gives_its_terminal_back_and_the_command_is_hung_up(
    session: SessionThread,
) -> None:
    assert session.id
    shell = "trap 'echo so > /tmp/hung-up; exit' HUP; echo ready; while :; do sleep 0.1; done"
    with keyboard("sh", "-c", shell) as there:
        there.wait_shown(b"ready")
        there.process.terminate()
        assert there.wait() == 143
        assert there.is_as_before
    assert told("sh", "-c", "until grep so /tmp/hung-up; do sleep 0.1; done 2>/dev/null") == "so"
