"""`branchpoint resume`: a branch gets its machine again; a closed session is opened first."""

import argparse
import asyncio

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import branches, completed
from branchpoint_cli.origin import origin_of
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import show, standard_error
from branchpoint_cli.sessions import named_or_only, say_what_came_back
from branchpoint_cli.wording import resume_line
from branchpoint_vmruntime.control_facts import ResumeFacts
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.starting_owner import start_owner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "the branch; by default the current one"
    completed(parser.add_argument("branch", metavar="BRANCH", nargs="?", help=words), branches)
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Carry it on from its last checkpoint."""
    with ShownProgress(standard_error()) as progress:
        report = asyncio.run(_resume(options.session, options.branch, progress))
    show(report, options, console, resume_line(report))
    return 0


async def _resume(name: str | None, branch: str | None, progress: Progress) -> ResumeFacts:
    home = Home.default()
    session, opened = await named_or_only(home, name)
    if not opened:
        origin = origin_of(home, session)
        await start_owner(
            home,
            manifest=origin.manifest,
            key=session.key,
            folder=origin.folder,
            fresh=False,
            progress=progress,
        )
    async with SessionControl(home.control(session.id)) as control:
        report = await control.resume(branch)
        say_what_came_back(control)
        return report
