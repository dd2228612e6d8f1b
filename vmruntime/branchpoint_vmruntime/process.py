"""The QEMU process: start it so that it cannot outlive us, learn of its end, end it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LOG_TAIL = 2000
_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")

# QEMU has the disk of each checkpoint of a line open. It leaves its soft limit as it finds it (seen
# in 7.2), which is often 1024: a branch with as many could be saved no more.
_MANY_FILES = 'ulimit -Sn "$(ulimit -Hn)" 2>/dev/null'

# Linux sends no signal for a parent that had died before it was asked to.
_START_UNLESS_ORPHANED = f'{_MANY_FILES}; [ "$PPID" = "$0" ] && exec "$@"'

# At a stop and at a reboot systemd sends them to every process of a unit at once. They are for the
# owner to heed: it saves its machines first, and ends them by SIGKILL. QEMU leaves blocked what it
# finds blocked (seen in 7.2).
_THE_OWNERS_TO_HEED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class QemuProcess:
    """A running QEMU. Made by `start`; `end` is safe to call at any time, more than once."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self._popen = popen
        self._log = log
        self._pidfd = os.pidfd_open(popen.pid)
        self._ended = asyncio.get_running_loop().create_future()
        self._watchers: list[Callable[[], None]] = []
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    @classmethod
    def start(cls, argv: Sequence[str], *, pass_fds: Sequence[int], log: Path) -> "QemuProcess":
        """Start it as a child that the kernel kills when the thread that started it ends.

        Call from the thread that lives as long as the process should: the event loop's.
        """
        with log.open("ab") as output, _blocked(_THE_OWNERS_TO_HEED):
            popen = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--"),
                    *("sh", "-c", _START_UNLESS_ORPHANED, str(os.getpid())),
                    *argv,
                ],
                # No machine's process is to hold what the host's environment tells the host alone.
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        return cls(popen, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    def on_end(self, watcher: Callable[[], None]) -> None:
        """Call back once when it ends; at once if it has."""
        if self.ended:
            watcher()
        else:
            self._watchers.append(watcher)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._popen.wait()
        self._ended.set_result(None)
        for watcher in self._watchers:
            watcher()

    def kill(self) -> None:
        """End it at once."""
        if not self.ended:
            self._popen.send_signal(signal.SIGKILL)

    async def end(self) -> None:
        """End it and wait until it is gone."""
        self.kill()
        await asyncio.shield(self._ended)

    def describe_end(self) -> str:
        """In words how it ended, with the last of what it wrote."""
        status = self._popen.returncode
        if status is None:
            return "still running"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        if status == -signal.SIGBUS:
            # On a tmpfs even reading a hole takes a page, and memory images have holes.
            how += ", its memory image could not be read: is the disk full?"
        tail = self._log.read_bytes()[-_LOG_TAIL:].decode(errors="replace").strip()
        return f"QEMU {how}" + (f"; it said: {tail}" if tail else "")


@contextmanager
def _blocked(numbers: Sequence[signal.Signals]) -> Generator[None]:
    """What is started meanwhile has those signals blocked; this thread's own come afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
