"""`branchpoint rename`: have a session be found by another key, as where its notebook is now."""

import argparse
import asyncio
import os
from pathlib import Path

from rich.console import Console

from branchpoint_cli.common import session_name
from branchpoint_cli.completing import completed, sessions
from branchpoint_cli.screen import show
from branchpoint_cli.sessions import named, on_record
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import note
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.renaming import rename_session, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "the session: its id or the start of it, its key, or where its notebook was"
    completed(parser.add_argument("named", metavar="SESSION", help=words), sessions)
    words = "what it is to be found by: where its notebook is now, or a name"
    parser.add_argument("key", metavar="KEY", type=_key, help=words)
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Rename it; whoever has it open goes on with it."""
    home = Home.default()
    session = named(options.named, on_record(home))
    renamed = rename_session(home, session.id, options.key)
    asyncio.run(tell(home, renamed))
    (now,) = renamed.sessions
    line = note("●", f"session {now.id} is {printable(now.key)}", f"was {printable(session.key)}")
    show({"session": now, "was": session.key}, options, console, line)
    return 0


def _key(text: str) -> str:
    """A notebook's path as its kernel has it, or a name."""
    if "/" in text or text.endswith(".ipynb"):
        return os.path.normpath(Path(text).absolute())
    return session_name(text)
