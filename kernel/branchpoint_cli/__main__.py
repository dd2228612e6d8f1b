"""`branchpoint`: prepare this host, look at it, show what it can do, measure it; reach sessions."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from branchpoint_cli import forward, ledger
from branchpoint_cli.bench.run import PARTS, run_bench
from branchpoint_cli.demo import run_demo
from branchpoint_cli.progress import ShownProgress
from branchpoint_kernel import kernelspec
from branchpoint_vmruntime import BranchpointError, Runtime
from branchpoint_vmruntime.doctor import Diagnosis, Status, examine
from branchpoint_vmruntime.home import Home

FAILED = 1
_MARKS = {Status.OK: "[green]✓[/]", Status.WARN: "[yellow]![/]", Status.BAD: "[red]✗[/]"}


def setup(_: argparse.Namespace, console: Console) -> int:
    """Install or build what is missing, each step skipped when its result is there."""
    with ShownProgress(console) as progress:
        asyncio.run(Runtime.prepare(progress=progress))
        progress.step("kernelspec")
        progress.done(str(kernelspec.install(python=sys.executable)))
    return 0


def doctor(options: argparse.Namespace, console: Console) -> int:
    """Say what this host has, what follows from it and what to do about it."""
    diagnosis = examine(Home.default(), has_base=_has_base)
    if options.json:
        print(diagnosis.as_json())
    else:
        console.print(_table(diagnosis))
    return 0 if diagnosis.healthy else FAILED


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


def demo(options: argparse.Namespace, console: Console) -> int:
    """Run the quickstart notebook and write what came of it."""
    return run_demo(options.notebook, options.output, console=console)


def bench(options: argparse.Namespace, console: Console) -> int:
    """Measure what operations cost, each against its floor in the same run."""
    return run_bench(options.output, runs=options.runs, only=options.only, console=console)


def arguments() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = argparse.ArgumentParser(prog="branchpoint", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace, Console], int]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        return command

    add("setup", setup)
    add("doctor", doctor).add_argument("--json", action="store_true", help="as JSON")
    show = add("demo", demo)
    show.add_argument("--notebook", type=Path, default=Path("notebooks/00-quickstart.ipynb"))
    show.add_argument("--output", type=Path, default=Path("demo-output"))
    forward.add_arguments(add("forward", forward.run))
    ledger.add_arguments(add("ledger", ledger.run))
    measure = add("bench", bench)
    measure.add_argument("--runs", type=int, default=10, help="how often each is measured")
    measure.add_argument("--only", choices=PARTS, help="the one part to measure")
    measure.add_argument("--output", type=Path, default=Path("bench-output"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors in words, with what to do."""
    options = arguments().parse_args(argv)
    console = Console(highlight=False, soft_wrap=not os.isatty(1))
    try:
        return options.run(options, console)
    except BranchpointError as error:
        told = Console(stderr=True, highlight=False)
        told.print(f"[red]✗[/] {escape(str(error))}")
        if error.hint:
            told.print(f"  {escape(error.hint)}")
        return FAILED
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
