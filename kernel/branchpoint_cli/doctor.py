"""`branchpoint doctor`: what this host has, and what follows from it."""

import argparse

from rich.console import Console
from rich.table import Column, Table

from branchpoint_vmruntime.doctor import Diagnosis, Status, examine
from branchpoint_vmruntime.home import Home

_MARKS = {Status.OK: "[green]✓[/]", Status.WARN: "[yellow]![/]", Status.BAD: "[red]✗[/]"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Say what this host has, what follows from it and what to do about it."""
    diagnosis = examine(Home.default(), has_base=_has_base)
    if options.json:
        console.out(diagnosis.as_json())
    else:
        console.print(_table(diagnosis))
    return 0 if diagnosis.healthy else 1


def _has_base() -> bool:
    return any((Home.default().layers / "base").glob("*/memory"))


def _table(diagnosis: Diagnosis) -> Table:
    # A path is one long word, and to be cut short helps nobody who looks for it.
    columns = [Column(name, overflow="fold") for name in ("", "what", "is", "so", "to do")]
    table = Table(*columns, show_edge=False)
    for finding in diagnosis.findings:
        mark = _MARKS[finding.status]
        table.add_row(mark, finding.name, finding.what, finding.follows, finding.action)
    return table
