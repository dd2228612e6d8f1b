"""`python -m tests.support.fake_kernel -f FILE`: the proxy as a process, with a fake session."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.fake_session import FakeSession

from branchpoint_kernel.__main__ import run
from branchpoint_kernel.relay import Opened
from branchpoint_vmruntime.image.progress import Progress


@asynccontextmanager
async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
    """A fake session."""
    async with FakeSession() as session:
        yield Opened(session, "in a machine that is made up")


if __name__ == "__main__":
    run(Path(sys.argv[2]), lambda key: opening)
