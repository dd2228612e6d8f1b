"""`branchpoint create`: a session without a notebook."""

import argparse
import asyncio
import shlex
from pathlib import Path

from rich.console import Console

from branchpoint_cli.common import LONGEST_NAME, session_name
from branchpoint_cli.origin import Origin, note_origin, origin_at
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import as_json, standard_error
from branchpoint_cli.sessions import on_record
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.errors import NameTakenError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.lineage.naming import next_label
from branchpoint_vmruntime.manifest import FILE_NAME, Manifest
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.starting_owner import start_owner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        metavar="FILE",
        help=f"the manifest; by default {FILE_NAME} if it is there",
    )
    parser.add_argument("--name", type=session_name, help="what the session is to be called")
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Open it and print its id."""
    home = Home.default()
    home.ensure()
    origin = _origin(options.file)
    if origin.manifest is not None:
        # Read here as well: what is wrong with it is said before anything is started.
        Manifest.load(origin.manifest)
    name = options.name or _made_up(home, origin.folder)
    _refuse_taken(home, name)
    with ShownProgress(standard_error()) as progress:
        opened = asyncio.run(_open(home, name, origin, progress))
    if options.json:
        as_json(opened, console)
    else:
        console.out(opened.id)
    return 0


async def _open(home: Home, name: str, origin: Origin, progress: Progress) -> OpenSession:
    opened = await start_owner(
        home,
        manifest=origin.manifest,
        key=name,
        folder=origin.folder,
        fresh=True,
        progress=progress,
    )
    try:
        _note(home, name, opened, origin)
    except BaseException:
        async with SessionControl(home.control(opened.id)) as session:
            await session.end(save=False)
        await asyncio.to_thread(remove_session, home, opened.id)
        raise
    return opened


def _note(home: Home, name: str, opened: OpenSession, origin: Origin) -> None:
    if opened.key != name:
        # Another command was quicker with the same name, and this is a second session beside it.
        raise _taken(name)
    note_origin(home, opened.id, origin)


def _origin(file: Path | None) -> Origin:
    if file is None:
        beside = Path.cwd() / FILE_NAME
        return Origin(manifest=beside if beside.exists() else None, folder=Path.cwd())
    return origin_at(file)


def _made_up(home: Home, folder: Path) -> str:
    stem = "".join(c for c in folder.name if c.isprintable())[:LONGEST_NAME] or "session"
    return next_label(stem, {session.key for session in on_record(home)})


def _refuse_taken(home: Home, name: str) -> None:
    if name in {session.key for session in on_record(home)}:
        raise _taken(name)


def _taken(name: str) -> NameTakenError:
    return NameTakenError(
        f"there is already a session {name!r}",
        hint=f"`branchpoint resume --session {shlex.quote(name)}` carries it on, "
        f"`branchpoint rm {shlex.quote(name)}` removes it; or choose another name",
    )
