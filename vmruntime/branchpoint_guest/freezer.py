"""The user's processes as one cgroup.

Put them in, freeze them, thaw them, learn of kills for want of memory.
"""

import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_USER = _ROOT / "user"
_RESERVED_BYTES = 48 << 20


class FreezeTimeoutError(TimeoutError):
    """Some process could not be frozen in time; all were thawed again."""


class UserCgroup:
    """The cgroup `user`, in which everything runs that is not guestd's own."""

    def __init__(self) -> None:
        self._path = _USER
        (_ROOT / "cgroup.subtree_control").write_text("+memory +pids")
        self._path.mkdir(exist_ok=True)
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        (self._path / "memory.max").write_text(str(total - _RESERVED_BYTES))
        # Kept open: opening a file of cgroupfs costs as much as writing it, and it is done with the
        # machine at rest.
        self._freeze = os.open(self._path / "cgroup.freeze", os.O_WRONLY)
        self._events = os.open(self._path / "cgroup.events", os.O_RDONLY)

    def adopt_self(self) -> None:
        """Move the calling process in; run in a child between fork and exec."""
        enter_user_cgroup()

    def freeze(self, timeout_s: float) -> None:
        """Stop every process of the user's.

        Raises FreezeTimeoutError, with all of them running again.
        """
        os.pwrite(self._freeze, b"1", 0)
        deadline = time.monotonic() + timeout_s
        while b"frozen 1" not in os.pread(self._events, 256, 0):
            if time.monotonic() > deadline:
                self.thaw()
                raise FreezeTimeoutError(f"a process could not be frozen within {timeout_s:g} s")
            time.sleep(0.0005)

    def thaw(self) -> None:
        """Let the user's processes run."""
        os.pwrite(self._freeze, b"0", 0)

    def kills_for_memory(self) -> int:
        """How many processes the kernel has killed here because memory ran out."""
        for line in (self._path / "memory.events").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
        return 0

    def memory_bytes(self) -> tuple[int, int]:
        """Memory in use and the limit."""
        return (
            int((self._path / "memory.current").read_text()),
            int((self._path / "memory.max").read_text()),
        )


def enter_user_cgroup() -> None:
    """Move the calling process in, from anywhere; run in a child between fork and exec."""
    (_USER / "cgroup.procs").write_text("0")
    # Children inherit guestd's exemption; with nothing left to kill, Linux panics.
    Path("/proc/self/oom_score_adj").write_text("0")
