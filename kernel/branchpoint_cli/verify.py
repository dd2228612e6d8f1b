"""`branchpoint verify`: whether all that was saved is what was written, and what damage takes."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from rich.console import Console

from branchpoint_cli.completing import completed, sessions
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import as_json, say, standard_error
from branchpoint_cli.sessions import named, on_record
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import Progress, SilentProgress
from branchpoint_vmruntime.lineage import Checkpoint, SessionId
from branchpoint_vmruntime.storage.verifying import DamagedLayer, Verification, verify
from branchpoint_vmruntime.storage.verifying_images import DamagedImage

_MOST_NAMED = 8
_DIGITS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "its id or the start of it, its key or notebook; by default everything is looked at"
    action = parser.add_argument("session", metavar="SESSION", nargs="?", help=words)
    completed(action, sessions)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Read every byte of what was saved; 1 if something is damaged."""
    home = Home.default()
    there = on_record(home)
    session = named(options.session, there).id if options.session else None
    if not there and not home.database.exists():
        found = None
    else:
        shown = ShownProgress(standard_error()) if console.is_terminal else None
        with shown or nullcontext():
            found = _verify(home, session, shown or SilentProgress())
    if options.json:
        as_json(_plain(found), console)
    elif found is None:
        console.print("nothing was ever saved here")
    else:
        say(console, list(_lines(found)))
    return 0 if found is None or found.whole else 1


def _verify(home: Home, session: str | None, progress: Progress) -> Verification:
    progress.step("reading what was saved")
    found = asyncio.run(
        verify(
            home,
            SessionId(session) if session else None,
            advance=lambda done, of: progress.advance(done / of),
        )
    )
    progress.done(f"{size(found.bytes)} read")
    return found


def _lines(found: Verification) -> Iterator[Line]:
    for layer in found.damaged:
        yield from _of_layer(layer)
    for image in found.images:
        yield from _of_image(image)
    for books in found.books:
        yield note("✗", f"{books.path} is damaged", printable(books.what))
    many = "1 checkpoint" if found.checkpoints == 1 else f"{found.checkpoints} checkpoints"
    much = f"{many}, {size(found.bytes)} compared, in {found.elapsed_s:.1f} s"
    if found.whole:
        yield note("✓", much, "nothing is damaged")
    else:
        count = len(found.damaged) + len(found.images) + len(found.books)
        yield note("✗", much, f"{count} of what is there {'is' if count == 1 else 'are'} damaged")
    if found.unverifiable:
        yield note(
            "!",
            f"not verifiable: {_names(found.unverifiable)}",
            "made before digests were noted; no damage that shows without them",
        )
    if found.disks_unread:
        yield note(
            "!", f"{found.disks_unread} disk overlays not looked into", "only their digests were"
        )
    if found.strays:
        strays = ", ".join(str(path) for path in found.strays[:_MOST_NAMED])
        yield note("!", f"on no record: {strays}", "`branchpoint gc` removes it")


def _of_layer(layer: DamagedLayer) -> Iterator[Line]:
    yield note("✗", f"checkpoint {_name(layer.checkpoint)} is damaged", "")
    yield from _consequences(layer)


def _of_image(image: DamagedImage) -> Iterator[Line]:
    yield note("✗", f"image {printable(image.folder.name)[:_DIGITS]} is not as it was", "")
    yield from _consequences(image)


def _consequences(of: DamagedLayer | DamagedImage) -> Iterator[Line]:
    for damage in of.damages:
        yield note(" ", f" {printable(str(damage.path))}", printable(damage.what))
    if of.needed_by:
        yield note(" ", f" needed by {_names(of.needed_by)}", "")
    yield note(" ", f" {of.advice}", "")


def _names(checkpoints: Sequence[Checkpoint]) -> str:
    more = len(checkpoints) - _MOST_NAMED
    words = ", ".join(_name(each) for each in checkpoints[:_MOST_NAMED])
    return f"{words}, and {more} more" if more > 0 else words


def _name(checkpoint: Checkpoint) -> str:
    return f"{printable(checkpoint.label or checkpoint.kind)} ({checkpoint.id})"


def _plain(found: Verification | None) -> dict[str, Any]:
    """What was found, without all that is on record of each checkpoint."""
    if found is None:
        return {
            "whole": True,
            "checkpoints": 0,
            "bytes": 0,
            "damaged": [],
            "images": [],
            "books": [],
        }
    return {
        "whole": found.whole,
        "checkpoints": found.checkpoints,
        "bytes": found.bytes,
        "elapsed_s": round(found.elapsed_s, 3),
        "damaged": [
            {
                **_facts(layer.checkpoint),
                "damages": layer.damages,
                "needed_by": [_facts(each) for each in layer.needed_by],
                "advice": layer.advice,
            }
            for layer in found.damaged
        ],
        "images": [
            {
                "image": image.folder.name,
                "damages": image.damages,
                "needed_by": [_facts(each) for each in image.needed_by],
                "advice": image.advice,
            }
            for image in found.images
        ],
        "books": found.books,
        "unverifiable": [_facts(each) for each in found.unverifiable],
        "strays": found.strays,
        "disks_unread": found.disks_unread,
    }


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint.id,
        "label": checkpoint.label,
        "kind": checkpoint.kind,
        "session": checkpoint.session,
    }
