"""`python -P -m branchpoint_kernel -f CONNECTION_FILE`: the process that Jupyter starts."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from branchpoint_kernel.messages import Stamp
from branchpoint_kernel.relay import Opened, Opening, Relay
from branchpoint_kernel.returning import Returning
from branchpoint_kernel.sockets import Connection, front_end
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.entering import enter
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.manifest import NOTEBOOK_SUFFIX, Manifest
from branchpoint_vmruntime.ownership import BY_KERNEL
from branchpoint_vmruntime.runtime import Runtime

PARENT_POLL_S = 0.5
# Jupyter waits 5 s by default and sends SIGTERM after half of it.
EXIT_WITHIN_S = 2.0
# What another notebook gets back is saved first. It is killed by then if Jupyter waits no longer,
# and whoever has Jupyter wait longer means that.
SAVE_WITHIN_S = 60.0

# What goes on while a process serves front ends, and concerns the process.
Beside = Callable[[Relay], Coroutine[Any, Any, None]]


def session_key(connection_file: Path) -> str:
    """What finds this notebook's session again: its path, if Jupyter told us."""
    if named := os.environ.get("BRANCHPOINT_SESSION"):
        return as_key(named)
    notebook = os.environ.get("JPY_SESSION_NAME")
    return as_key(str(Path(notebook or connection_file).absolute()))


def manifest_of(folder: Path) -> Manifest:
    """What the notebook asks for, in its folder's manifest and by itself, if Jupyter told us of it.

    ManifestError with file and line if that cannot be.
    """
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    if notebook.suffix == NOTEBOOK_SUFFIX:
        return Manifest.of_notebook(notebook.absolute(), folder)
    return Manifest.beside(folder)


@asynccontextmanager
async def opening(key: str, progress: Progress) -> AsyncGenerator[Opened]:
    """The session of this notebook, open as long as its machines are to live."""
    progress.step("looking at what this computer has")
    async with Runtime() as runtime:
        manifest = manifest_of(Path.cwd())
        async with runtime.session(
            manifest, key=key, folder=Path.cwd(), owner=BY_KERNEL, progress=progress
        ) as session:
            accelerator = await runtime.accelerator()
            machine = f"in a microVM under {accelerator.name} ({accelerator.reason})"
            returning = Returning(session, runtime.home.session(session.record.id), key)
            yield Opened(session, machine, returning)


async def watch_parent(relay: Relay) -> None:
    """End when the Jupyter that started us is gone: nobody else would."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 (nothing tells a child that its parent ended)
        await asyncio.sleep(PARENT_POLL_S)
    relay.end()


async def limit_exit(relay: Relay) -> None:
    """Machines end with this process in any case; a slow goodbye must not look like a hang."""
    await relay.wait_ending()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SAVE_WITHIN_S):
            await relay.wait_saved()
    await asyncio.sleep(EXIT_WITHIN_S)
    os._exit(0)


async def end_when_told(relay: Relay) -> None:
    """End at SIGTERM, which is what Jupyter sends to a process that does not answer."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, relay.end)


async def serve(connection: Connection, opening: Opening, *beside: Beside) -> None:
    """Serve front ends until one asks for the end; what is `beside` may end it sooner."""
    with front_end(connection) as sockets:
        stamp = Stamp(key=connection.key, scheme=connection.scheme)
        relay = Relay(sockets, stamp, opening)
        tasks = [asyncio.create_task(each(relay)) for each in beside]
        try:
            await relay.serve()
        finally:
            for task in tasks:
                task.cancel()


def run(connection_file: Path, opening_for: Callable[[str], Opening]) -> None:
    """Be the kernel of that connection file; `opening_for` opens the session of a key."""
    # Interrupts come as messages; a signal to the whole terminal is not meant for us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    beside: list[Beside] = [limit_exit, end_when_told]
    if os.environ.pop("JPY_PARENT_PID", None) is not None:
        beside.append(watch_parent)
    opening = opening_for(session_key(connection_file))
    asyncio.run(serve(Connection.load(connection_file), opening, *beside))


def main(arguments: list[str]) -> None:
    """Run the kernel."""
    parser = argparse.ArgumentParser(prog="python -m branchpoint_kernel")
    parser.add_argument("-f", dest="connection_file", required=True, type=Path)
    options = parser.parse_args(arguments)
    logging.basicConfig(format="branchpoint: %(message)s")
    # What goes wrong with a monitor reaches us as an error; a machine called off is no news.
    logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)
    run(options.connection_file, lambda key: lambda progress: opening(key, progress))


if __name__ == "__main__":
    enter()
    main(sys.argv[1:])
