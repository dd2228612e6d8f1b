"""`branchpoint resume`: a branch gets its machine again; a closed session is opened first."""

import argparse
import asyncio
from pathlib import Path

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.completing import branches, completed
from branchpoint_cli.origin import note_origin, origin_at, origin_of
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import say, show, standard_error
from branchpoint_cli.sessions import named_or_only, say_notices
from branchpoint_cli.wording import resume_line
from branchpoint_kernel.rendering import note
from branchpoint_vmruntime.control_facts import ResumeFacts
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session_control import SessionControl, is_answered
from branchpoint_vmruntime.starting_owner import start_owner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "the branch; by default the current one"
    completed(parser.add_argument("branch", metavar="BRANCH", nargs="?", help=words), branches)
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        metavar="FILE",
        help="the manifest that a closed session is opened with, from now on",
    )
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Carry it on from its last checkpoint."""
    with ShownProgress(standard_error()) as progress:
        report = asyncio.run(_resume(options.session, options.branch, options.file, progress))
    show(report, options, console, resume_line(report))
    return 0


async def _resume(
    name: str | None, branch: str | None, file: Path | None, progress: Progress
) -> ResumeFacts:
    home = Home.default()
    session, opened = await named_or_only(home, name)
    if opened:
        _require_none(file, session.id)
        async with SessionControl(home.control(session.id)) as control:
            return await _resumed(control, branch)
    origin = origin_of(home, session) if file is None else origin_at(file)
    await start_owner(
        home,
        manifest=origin.manifest,
        key=session.key,
        folder=origin.folder,
        fresh=False,
        progress=progress,
    )
    try:
        async with SessionControl(home.control(session.id)) as control:
            report = await _begun(control, branch) or await _resumed(control, branch)
        if file is not None:
            note_origin(home, session.id, origin)
    except BaseException:
        await _close_again(home, session.id)
        raise
    return report


def _require_none(file: Path | None, session: str) -> None:
    if file is not None:
        raise UsageError(
            f"session {session} is open, and has the manifest it was opened with",
            hint=f"branchpoint close --session {session}, and resume it with that one then",
        )


async def _resumed(control: SessionControl, branch: str | None) -> ResumeFacts:
    report = await control.resume(branch)
    say_notices(control)
    return report


async def _begun(control: SessionControl, branch: str | None) -> ResumeFacts | None:
    """The branch, if it is live already: a session that had none begins with a fresh machine."""
    for there in await control.branches():
        meant = there.current if branch is None else there.name == branch
        if meant and there.state is BranchState.LIVE:
            saved = {checkpoint.id: checkpoint for checkpoint in await control.checkpoints()}
            return ResumeFacts(
                branch=there,
                checkpoint=saved[there.head],
                away_s=0.0,
                total_ms=there.awake_ms,
            )
    return None


async def _close_again(home: Home, session: str) -> None:
    """Nobody would know of the owner that was started for nothing, and it keeps others out."""
    if not await is_answered(home, session):
        return
    try:
        async with SessionControl(home.control(session)) as control:
            await control.end()
    except BranchpointError as error:
        stays = f"session {session} is still open: {error}"
        ends_it = f"branchpoint close --session {session}"
        say(standard_error(), [note("⚠", stays, ends_it)])
