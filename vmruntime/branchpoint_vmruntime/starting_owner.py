"""Starts the process that has a session open without a notebook, and hears how that went."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from branchpoint_vmruntime.awaiting_end import has_ended, process_descriptor
from branchpoint_vmruntime.control_facts import OpenSession, from_json
from branchpoint_vmruntime.errors import HostError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import Progress, SilentProgress
from branchpoint_vmruntime.refusals import error_of

_AS_MODULE = ("-X", "utf8", "-P", "-m")
_TAIL_BYTES = 2000
_GONE_S = 10.0


async def start_owner(
    home: Home,
    *,
    manifest: Path | None = None,
    key: str | None = None,
    folder: Path | None = None,
    fresh: bool = True,
    progress: Progress | None = None,
) -> OpenSession:
    """Start a process that opens the session of that key, and wait until it answers.

    `manifest` is a file; None: the defaults. `folder` is where the files are that it brings in, by
    default the manifest's, or else this process's. It goes on when the process that called this
    ends. What it says if it cannot open the session is raised here, and nothing is left of it then.
    SessionBusyError, saying who, if somebody has the session of that key open.
    """
    home.ensure()
    shown = progress or SilentProgress()
    reading, writing = os.pipe()
    with (
        tempfile.TemporaryFile(dir=home.cache) as output,
        os.fdopen(reading, "rb", buffering=0) as told,
    ):
        try:
            command = _command(home, writing, manifest, key, folder, fresh=fresh)
            await asyncio.to_thread(_spawn, command, home, writing, output)
        finally:
            os.close(writing)
        pid, refused = None, None
        try:
            # Closed before the pipe is: to be read from no more.
            async with contextlib.aclosing(_lines(told)) as lines:
                async for words in lines:
                    match words:
                        case {"pid": int(own)}:
                            pid = own
                        case {"open": {}}:
                            return from_json(OpenSession, words["open"])
                        case {"error": {"message": str()}}:
                            refused = error_of(words["error"])
                        case _:
                            _show(words, shown)
        except BaseException:
            if pid is not None:
                _have_end(pid)
            raise
        if pid is not None:
            # It has hung up, and all it had is closed; a moment more and it is gone itself.
            with process_descriptor(pid) as process:
                await has_ended(process, timeout_s=_GONE_S)
        raise refused or HostError(
            "the process that was to have the session open ended before it had" + _tail(output)
        )


def _command(
    home: Home,
    writing: int,
    manifest: Path | None,
    key: str | None,
    folder: Path | None,
    *,
    fresh: bool,
) -> list[str]:
    files = folder or (manifest.parent if manifest else Path.cwd())
    command = [
        *("setsid", "--fork", sys.executable, *_AS_MODULE, "branchpoint_vmruntime.owner"),
        f"--root={home.root.absolute()}",
        f"--run={home.run.absolute()}",
        f"--tell={writing}",
        f"--folder={files.absolute()}",
    ]
    command += [f"--manifest={manifest.absolute()}"] if manifest else []
    command += [f"--key={key}"] if key is not None else []
    return command if fresh else [*command, "--carry-on"]


def _spawn(command: Sequence[str], home: Home, writing: int, output: IO[bytes]) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[writing],
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(
            f"a process for the session could not be started: {error}{_tail(output)}",
            hint="`setsid` comes with util-linux; `branchpoint doctor` looks at this host",
        ) from error


async def _lines(told: IO[bytes]) -> AsyncGenerator[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), told)
    try:
        while line := await reader.readline():
            yield json.loads(line)
    finally:
        transport.close()


def _show(words: Mapping[str, Any], shown: Progress) -> None:
    match words:
        case {"step": str(title)}:
            shown.step(title)
        case {"advance": float(fraction)}:
            shown.advance(fraction)
        case {"done": str(summary)}:
            shown.done(summary)
        case _:
            pass


def _have_end(pid: int) -> None:
    """Nobody waits for it any more, and of a session that it opens nobody would know."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    said = output.read()[-_TAIL_BYTES:].decode(errors="replace").strip()
    return f"; it said: {said}" if said else ""
