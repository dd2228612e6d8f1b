"""Runs every measurement in one session and writes the table."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from branchpoint_cli.bench.explore import explorations
from branchpoint_cli.bench.figures import Figure, as_json, as_markdown
from branchpoint_cli.bench.lasting import sessions
from branchpoint_cli.bench.machines import Bench, forks, pauses, rollbacks, sizes
from branchpoint_cli.bench.moving import moves
from branchpoint_cli.bench.outside import outside
from branchpoint_cli.bench.proxy import round_trips
from branchpoint_cli.bench.stock import stock
from branchpoint_vmruntime import Manifest, Runtime, host
from branchpoint_vmruntime.lineage import Checkpoint

Measure = Callable[[], Awaitable[list[Figure]]]

# What can be measured, in this order.
PARTS = (
    "forks",
    "rollbacks",
    "stock",
    "proxy",
    "explore",
    "pauses",
    "sizes",
    "export",
    "outside",
    "sessions",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("--runs", type=int, default=10, help="how often each is measured")
    parser.add_argument("--only", choices=PARTS, help="the one part to measure")
    parser.add_argument(
        "--output", type=Path, default=Path("bench-output"), help="the folder to write into"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Measure what operations cost, and print the table."""
    return run_bench(options.output, runs=options.runs, only=options.only, console=console)


def run_bench(output: Path, *, runs: int, only: str | None, console: Console) -> int:
    """Measure all parts or one, print the table, write `bench.md` and `bench.json`."""
    output.mkdir(parents=True, exist_ok=True)
    parts = PARTS if only is None else (only,)
    figures, machine = asyncio.run(_measure(parts, runs, console))
    text = f"{machine}\n\n{as_markdown(figures)}"
    (output / "bench.md").write_text(text)
    (output / "bench.json").write_text(as_json(figures))
    console.print(Markdown(text))
    return 0


def measures_of(bench: Bench, start: Checkpoint, runtime: Runtime) -> Mapping[str, Measure]:
    """What measures each part."""
    runs = bench.runs
    return {
        "forks": lambda: forks(bench, start),
        "rollbacks": lambda: rollbacks(bench, start),
        "stock": lambda: stock(bench, start),
        "proxy": lambda: round_trips(bench),
        "explore": lambda: explorations(bench),
        "pauses": lambda: pauses(bench),
        "sizes": lambda: sizes(bench, start),
        "export": lambda: moves(bench),
        "outside": lambda: outside(runtime, runs),
        "sessions": lambda: sessions(runtime, runs),
    }


async def _measure(parts: Sequence[str], runs: int, console: Console) -> tuple[list[Figure], str]:
    figures: list[Figure] = []
    async with Runtime() as runtime, runtime.session(Manifest()) as session:
        accelerator = await runtime.accelerator()
        bench = Bench(session, runs, runtime.home.live / session.record.id)
        await session.current.run("import itertools; numbers = itertools.count()")
        start = await session.checkpoint("start")
        measures = measures_of(bench, start, runtime)
        for part in parts:
            with console.status(part):
                measured = await measures[part]()
            figures += measured
            console.print(f"measured: {part}")
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    memory = host.memory().total_bytes >> 30
    machine = (
        f"{datetime.now(UTC):%Y-%m-%d}, `{command}`: {host.distribution()}, {host.cpu_model()}, "
        f"{host.cores()} cores, {memory} GiB, QEMU under {accelerator.name}; medians of {runs} "
        "runs (cells: three times as many), alternating with what they are held against."
    )
    return figures, machine
