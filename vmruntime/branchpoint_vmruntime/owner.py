"""`python -P -m branchpoint_vmruntime.owner`: one process that has one session open, no notebook.

It answers at the session's control socket and ends when asked to there, or by SIGTERM or SIGINT:
then it saves its branches first. Whoever starts it hears from it over a pipe, in lines of JSON.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from branchpoint_vmruntime.control_facts import OpenSession, OwnerKind, to_json
from branchpoint_vmruntime.control_ops import save_all
from branchpoint_vmruntime.entering import enter
from branchpoint_vmruntime.errors import BranchpointError, BudgetError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.manifest import Manifest
from branchpoint_vmruntime.ownership import Ownership
from branchpoint_vmruntime.refusals import refusal_of
from branchpoint_vmruntime.runtime import Runtime
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.starting_owner import start_owner as start_owner
from branchpoint_vmruntime.unattended import Unattended

log = logging.getLogger(__name__)

LOG = "owner.log"
# A thread that builds an image cannot be called off.
_END_WITHIN_S = 10.0
_STDOUT, _STDERR = 1, 2


class Told:
    """Tells whoever started this process how far it is; enter it, and leave it to hang up."""

    def __init__(self, fd: int) -> None:
        self._pipe = os.fdopen(fd, "w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._pipe.close()

    def say(self, **words: Any) -> None:
        """One line. BrokenPipeError if nobody listens any more."""
        self._pipe.write(json.dumps(words) + "\n")
        self._pipe.flush()


class ToldProgress:
    """Implements `image.progress.Progress` for whoever started this process."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def step(self, title: str) -> None:
        """A step begins."""
        self._say(step=title)

    def advance(self, fraction: float) -> None:
        """The present step is this far, 0 to 1."""
        self._say(advance=float(fraction))

    def done(self, summary: str) -> None:
        """The present step is over."""
        self._say(done=summary)

    def _say(self, **words: Any) -> None:
        # Whether somebody still listens counts once the session is open.
        with contextlib.suppress(OSError):
            self._told.say(**words)


class Owner:
    """Has a session open until it is asked to end."""

    def __init__(self, home: Home, told: Told) -> None:
        self._home = home
        self._told = told
        self._asked_to_end = asyncio.Event()
        self._by_signal = False
        self._turn = asyncio.Lock()
        self._opening: asyncio.Task[None] | None = None

    async def own(
        self, manifest: Manifest, *, key: str | None, folder: Path | None, fresh: bool
    ) -> None:
        """Open the session, answer, save and close it. BranchpointError if it cannot be opened."""
        self._opening = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end_by_signal)
        ownership = Ownership(
            kind=OwnerKind.OWNER,
            alone=True,
            end=self._asked_to_end.set,
            ended=self._asked_to_end.is_set,
        )
        async with (
            Runtime(self._home) as runtime,
            runtime.session(
                manifest,
                key=key,
                folder=folder,
                fresh=fresh,
                owner=ownership,
                progress=ToldProgress(self._told),
            ) as session,
            Unattended(session) as unattended,
        ):
            session.turn = lambda: self._turns(unattended)
            session.on_resumed = lambda _report: unattended.adopt()
            session.outside.stopping.on_stop = _log_stop
            self._opening = None
            self._say_open(session)
            await self._asked_to_end.wait()
            if self._by_signal:
                await self._save(session)

    def _end_by_signal(self) -> None:
        self._by_signal = True
        self._asked_to_end.set()
        if self._opening is not None:
            self._opening.cancel()
            asyncio.get_running_loop().call_later(_END_WITHIN_S, os._exit, 1)

    def _say_open(self, session: Session) -> None:
        record = session.record
        keep_log(self._home.session(record.id) / LOG)
        facts = OpenSession(id=record.id, key=record.key, pid=os.getpid(), kind=OwnerKind.OWNER)
        try:
            self._told.say(open=to_json(facts))
        except OSError:
            # Nobody knows of this session's having been opened: nobody would end it.
            log.warning("whoever asked for the session has gone; it is closed again")
            self._asked_to_end.set()
        self._told.__exit__()

    async def _save(self, session: Session) -> None:
        try:
            async with self._turn:
                await save_all(session)
        except BranchpointError as error:
            log.warning("not all could be saved: %s", error)

    @asynccontextmanager
    async def _turns(self, unattended: Unattended) -> AsyncGenerator[None]:
        async with self._turn:
            try:
                yield
            finally:
                unattended.adopt()


def _log_stop(_branch: str, error: BudgetError) -> None:
    log.warning("%s", error)


def keep_log(path: Path) -> None:
    """From now on what this process writes goes to that file, as does what it has written so far.

    For a process whose output goes to a file that only it and its starter have.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab") as kept:
        path.chmod(0o600)
        with os.fdopen(os.dup(_STDERR), "rb") as so_far:
            so_far.seek(0)
            shutil.copyfileobj(so_far, kept)
        kept.flush()
        for fd in (_STDOUT, _STDERR):
            os.dup2(kept.fileno(), fd)


def main(argv: list[str]) -> int:
    """Be the owner of a session until its end."""
    parser = argparse.ArgumentParser(prog="python -P -m branchpoint_vmruntime.owner")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tell", type=int, required=True)
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--key")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--carry-on", action="store_true")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(message)s")
    # What goes wrong with a monitor reaches us as an error; a machine called off is no news.
    logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Told(options.tell) as told:
        try:
            told.say(pid=os.getpid())
            manifest = Manifest.load(options.manifest) if options.manifest else Manifest()
            home = Home(options.root, options.run)
            asyncio.run(_own(home, told, manifest, options))
        except BranchpointError as error:
            with contextlib.suppress(OSError, ValueError):
                told.say(error=refusal_of(error))
            log.warning("%s", error)
            return 1
        except asyncio.CancelledError:
            return 1
    return 0


async def _own(home: Home, told: Told, manifest: Manifest, options: argparse.Namespace) -> None:
    owner = Owner(home, told)
    await owner.own(manifest, key=options.key, folder=options.folder, fresh=not options.carry_on)


if __name__ == "__main__":
    enter()
    sys.exit(main(sys.argv[1:]))
