"""Facts about this host that machines depend on."""

import ctypes
import fcntl
import mmap
import os
import platform
import re
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from branchpoint_vmruntime.errors import HostError

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_TSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"
_TSC_WINDOW_S = 0.1
_TSC_READINGS = 50
FICLONE = 0x40049409


@dataclass(frozen=True, slots=True)
class Memory:
    """The host's memory, in bytes."""

    total_bytes: int
    available_bytes: int


@cache
def tsc_khz() -> int:
    """The rate of this host's time stamp counter, which is the rate of an emulated guest's.

    An emulated guest that has to find it out by itself hangs at boot when the host is busy.
    """
    if platform.machine() != "x86_64":
        raise HostError(f"machines run on x86_64 hosts only; this one is {platform.machine()}")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_READ_TSC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    read_tsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)

    def reading() -> tuple[float, int]:
        """A moment and its count: the tightest of several, lest an interruption matter."""
        best: tuple[int, float, int] | None = None
        for _ in range(_TSC_READINGS):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            count = int(read_tsc())
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            if best is None or after - before < best[0]:
                best = (after - before, (before + after) / 2, count)
        assert best is not None
        return best[1], best[2]

    start_ns, start_count = reading()
    time.sleep(_TSC_WINDOW_S)
    end_ns, end_count = reading()
    return round((end_count - start_count) * 1e6 / (end_ns - start_ns))


def memory() -> Memory:
    """The host's memory now."""
    return parse_meminfo(Path("/proc/meminfo").read_text())


def parse_meminfo(text: str) -> Memory:
    r"""The memory that /proc/meminfo tells of.

    >>> parse_meminfo("MemTotal: 2 kB\nMemAvailable: 1 kB\n")
    Memory(total_bytes=2048, available_bytes=1024)
    """
    sizes = {match[1]: int(match[2]) << 10 for match in re.finditer(r"(\w+):\s+(\d+) kB", text)}
    return Memory(sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0))


@cache
def cpu_model() -> str:
    """The processor's name, such as "AMD EPYC 7B13"."""
    return parse_cpu_model(Path("/proc/cpuinfo").read_text())


def parse_cpu_model(text: str) -> str:
    r"""The processor's name in /proc/cpuinfo.

    >>> parse_cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n")
    'AMD EPYC'
    """
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else "unknown"


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def boot_id() -> str:
    """A name of the host's present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def distribution() -> str:
    """The host's distribution in words."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown"


def free_bytes(folder: Path) -> int:
    """What this user may still write in the folder's file system."""
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def has_reflink(folder: Path) -> bool:
    """Whether files in the folder can share their blocks; found out by trying."""
    with (
        tempfile.NamedTemporaryFile(dir=folder, prefix=".reflink-") as source,
        tempfile.NamedTemporaryFile(dir=folder, prefix=".reflink-") as target,
    ):
        source.write(bytes(mmap.PAGESIZE))
        source.flush()
        try:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
        except OSError:
            return False
        return True
