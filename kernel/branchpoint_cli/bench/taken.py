"""What processes take of the host, as Linux counts it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int | None = None) -> float:
    """The memory of a process, by default this one's."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def processor_ms(pids: Sequence[int]) -> float:
    """The processor time that processes have taken until now, each with all its threads.

    >>> processor_ms([os.getpid()]) <= processor_ms([os.getpid(), os.getpid()])
    True
    """
    return sum(_ticks(Path(f"/proc/{pid}/stat").read_bytes()) for pid in pids) * 1000 / _TICKS


def _ticks(stat: bytes) -> int:
    # "PID (NAME) STATE …", and the name may hold anything; then fields 14 and 15.
    user, system = stat.rpartition(b")")[2].split()[11:13]
    return int(user) + int(system)


def share_ms_per_s(before_ms: float, began_s: float, pids: Sequence[int]) -> float:
    """How many ms a second they have taken since `processor_ms` said `before_ms`."""
    return (processor_ms(pids) - before_ms) / (time.monotonic() - began_s)
