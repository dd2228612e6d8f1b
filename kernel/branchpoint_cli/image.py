"""`branchpoint image`: the images there are, what is in them, and what needs them."""

import argparse

from rich.console import Console

from branchpoint_cli.screen import as_json, say
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image_uses import ImageUse, image_uses

_DIGITS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """List them, the default one first."""
    found = image_uses(Home.default())
    if options.json:
        as_json(found, console)
    elif found:
        say(console, [line for use in found for line in image_lines(use)])
    else:
        console.print("no image has been built; `branchpoint setup` builds the first")
    return 0


def image_lines(use: ImageUse) -> list[Line]:
    """One image, what it has beyond the everyday, and the sessions that need it."""
    what = "default" if use.default else "of a manifest"
    bases = _counted(use.bases, "base checkpoint")
    made = f"made {use.made_at.astimezone():%d %b %H:%M}"
    lines = [Line("●", use.digest[:_DIGITS], (what, size(use.disk_bytes), made, bases))]
    for kind, names in (("python", use.python), ("debian", use.debian)):
        if names:
            lines.append(note("▸", f"{kind}: {', '.join(map(printable, names))}"))
    for session in use.sessions:
        points = _counted(session.checkpoints, "checkpoint")
        lines.append(note("▸", f"session {session.id} ({printable(session.key)})", points))
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
