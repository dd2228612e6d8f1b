"""`branchpoint gc`: remove what a home no longer needs, or only say what that is."""

import argparse
import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rich.console import Console

from branchpoint_cli.screen import as_json, say
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.manifest.store import parse_age, parse_bytes, parse_count
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.collection import Collection, Removal
from branchpoint_vmruntime.storage.retention import StoreBudgets, Verdict

Value = TypeVar("Value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "say what would go and how much that frees; remove nothing"
    parser.add_argument("--dry-run", action="store_true", help=words)
    of_each = "of each session, in place of what its manifest says"
    for name, parse, shape, what in (
        ("--bytes", parse_bytes, "SIZE", "disk its checkpoints may take, such as 20gb"),
        ("--age", parse_age, "TIME", "how old they may be, such as 30d"),
        ("--checkpoints", parse_count, "NUMBER", "how many there may be"),
    ):
        parser.add_argument(name, metavar=shape, type=_read(parse), help=f"{what}; {of_each}")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Remove, or say what would go; 1 if something could not be looked at or removed."""
    budgets = StoreBudgets(bytes=options.bytes, age_s=options.age, checkpoints=options.checkpoints)
    found = asyncio.run(collect(Home.default(), budgets=budgets, dry_run=options.dry_run))
    if options.json:
        as_json(_plain(found), console)
    else:
        say(console, list(_lines(found)))
    return 1 if found.left else 0


def _read(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _lines(found: Collection) -> Iterator[Line]:
    keys = {stay.session: printable(stay.key) for stay in found.stays}
    for removal in found.removals:
        yield _line(removal, keys)
    if not found.removals:
        yield note("✓", "nothing goes", "all there is on the disk is needed, or within the budgets")
    elif found.dry:
        yield note("●", f"{size(found.freed_bytes)} would be free", "nothing was removed")
    else:
        yield note("✓", f"{size(found.freed_bytes)} are free", "")
    for stay in found.stays:
        for words in stay.unmet:
            why = "the rest is pinned, stood on, or what those descend from"
            yield note("!", printable(stay.key), f"{words}: {why}")
    for left in found.left:
        yield note("!", f"{printable(left.name)} was left alone", printable(left.why))


def _line(removal: Removal, keys: dict[str, str]) -> Line:
    whose = keys.get(removal.session, removal.session)
    name = f"{removal.kind} {printable(removal.name)}"
    return Line("✕", name, (size(removal.bytes), whose, printable(removal.why)))


def _plain(found: Collection) -> dict[str, Any]:
    """What came of it, without all that is on record of each checkpoint."""
    return {
        "dry_run": found.dry,
        "freed_bytes": found.freed_bytes,
        "removals": found.removals,
        "left": found.left,
        "sessions": [
            {
                "id": stay.session,
                "key": stay.key,
                "kept": [_kept(verdict) for verdict in stay.kept],
                "unmet": stay.unmet,
            }
            for stay in found.stays
        ],
    }


def _kept(verdict: Verdict) -> dict[str, Any]:
    checkpoint = verdict.checkpoint
    return {
        "checkpoint": checkpoint.id,
        "label": checkpoint.label,
        "kind": checkpoint.kind,
        "bytes": verdict.bytes,
        "why": verdict.why,
    }
