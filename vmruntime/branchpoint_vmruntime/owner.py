"""One small process that has one session open without a notebook, and ends with it."""

from pathlib import Path

from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.home import Home


async def start_owner(
    home: Home,
    *,
    manifest: Path | None = None,
    key: str | None = None,
    folder: Path | None = None,
    fresh: bool = True,
) -> OpenSession:
    """Start a process that opens the session of that key, and wait until it answers.

    `manifest` is a file; None: the defaults. `folder` is where the files are that it brings in. It
    goes on when the process that called this ends. What it says if it cannot open the session is
    raised here, and nothing is left of it then. SessionBusyError, saying who, if somebody has the
    session of that key open.
    """
    raise NotImplementedError(home, manifest, key, folder, fresh)
