"""`branchpoint export`: write a checkpoint and all it needs as one file."""

import argparse
import asyncio
from pathlib import Path

from rich.console import Console

from branchpoint_cli.common import add_checkpoint, add_common
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import show, standard_error
from branchpoint_cli.sessions import named_or_only
from branchpoint_kernel.rendering import note, size
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.storage.exporting import (
    Exported,
    export_checkpoint,
    newest_checkpoint,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    add_checkpoint(parser, of="by default what the current branch saved last", nargs="?")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="the file to write"
    )
    parser.add_argument(
        "--with-image", action="store_true", help="take the guest image along, for a host without"
    )
    add_common(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    """Write it, whole or not at all."""
    made = _export(options)
    checkpoint = made.package.checkpoint
    facts = {
        "file": made.file,
        "bytes": made.bytes,
        "sha256": made.sha256,
        "session": made.package.session.id,
        "branch": made.package.branch,
        "checkpoint": checkpoint.id,
        "checkpoints": len(made.package.layers),
        "data_bytes": made.package.data_bytes,
        "with_image": bool(made.package.image.files),
    }
    told = note(
        "●",
        f"{checkpoint.label or checkpoint.id} is in {made.file}",
        size(made.bytes),
        f"{len(made.package.layers)} checkpoints that hold {size(made.package.data_bytes)}",
        "with the image" if made.package.image.files else "",
    )
    left = note("⚠", "whoever has it has all that is in that machine's memory and on its disk")
    show(facts, options, console, told, left)
    return 0


def _export(options: argparse.Namespace) -> Exported:
    home = Home.default()
    session, _ = asyncio.run(named_or_only(home, options.session))
    with Journal.read(home.database) as journal:
        if options.checkpoint is None:
            checkpoint = newest_checkpoint(journal, session)
        else:
            checkpoint = resolve(options.checkpoint, journal.checkpoints(session.id))
    with ShownProgress(standard_error()) as progress:
        return export_checkpoint(
            home,
            session,
            checkpoint,
            options.output,
            progress=progress,
            with_image=options.with_image,
        )
