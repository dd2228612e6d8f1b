"""How far the relay is behind what the kernel publishes: two counters in a page both map."""

import mmap
import os
from pathlib import Path

_PUBLISHED, _CARRIED = range(2)


class Backlog:
    """The counters of one kernel, found by its connection file. Whoever comes first makes them.

    Each counter has one writer: the kernel's process for what is published, the relay for what is
    carried. Processes the kernel forks read along.
    """

    def __init__(self, connection_file: Path) -> None:
        path = connection_file.with_suffix(".backlog")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            page = mmap.mmap(descriptor, mmap.PAGESIZE)
        finally:
            os.close(descriptor)
        self._counters = memoryview(page).cast("Q")

    @property
    def waiting_bytes(self) -> int:
        """What has been published and not been carried."""
        return max(0, self._counters[_PUBLISHED] - self._counters[_CARRIED])

    @property
    def published_bytes(self) -> int:
        """What has been published so far."""
        return self._counters[_PUBLISHED]

    @property
    def carried_bytes(self) -> int:
        """What has been carried so far."""
        return self._counters[_CARRIED]

    def add_published(self, size: int) -> None:
        """For the kernel: so many bytes more are on their way."""
        self._counters[_PUBLISHED] += size

    def add_carried(self, size: int) -> None:
        """For the relay: it has so many bytes more."""
        self._counters[_CARRIED] += size
