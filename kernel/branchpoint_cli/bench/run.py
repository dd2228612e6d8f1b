"""Runs every measurement in one session and writes the table."""

import asyncio
import shlex
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from branchpoint_cli.bench.explore import explorations
from branchpoint_cli.bench.figures import Figure, as_json, as_markdown
from branchpoint_cli.bench.machines import Bench, forks, pauses, rollbacks, sizes
from branchpoint_cli.bench.outside import outside
from branchpoint_cli.bench.proxy import round_trips
from branchpoint_cli.bench.stock import stock
from branchpoint_vmruntime import Manifest, Runtime, host


def run_bench(output: Path, *, runs: int, console: Console) -> int:
    """Measure everything, print the table, write `bench.md` and `bench.json`."""
    output.mkdir(parents=True, exist_ok=True)
    figures, machine = asyncio.run(_measure(output, runs, console))
    text = f"{machine}\n\n{as_markdown(figures)}"
    (output / "bench.md").write_text(text)
    (output / "bench.json").write_text(as_json(figures))
    console.print(Markdown(text))
    return 0


async def _measure(output: Path, runs: int, console: Console) -> tuple[list[Figure], str]:
    figures: list[Figure] = []
    async with Runtime() as runtime, runtime.session(Manifest()) as session:
        accelerator = await runtime.accelerator()
        bench = Bench(session, runs, runtime.home.live / session.record.id)
        await session.current.run("import itertools; numbers = itertools.count()")
        start = await session.checkpoint("start")
        steps: list[tuple[str, Coroutine[Any, Any, list[Figure]]]] = [
            ("forks", forks(bench, start)),
            ("rollbacks", rollbacks(bench, start)),
            ("stock QEMU", stock(bench, start)),
            ("the proxy", round_trips(bench)),
            ("explore", explorations(bench)),
            ("pauses", pauses(bench)),
            ("sizes", sizes(bench, start)),
            ("the outside", outside(runtime, runs)),
        ]
        for title, step in steps:
            with console.status(title):
                measured = await step
            figures += measured
            console.print(f"measured: {title}")
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    memory = host.memory().total_bytes >> 30
    machine = (
        f"{datetime.now(UTC):%Y-%m-%d}, `{command}`: {host.distribution()}, {host.cpu_model()}, "
        f"{host.cores()} cores, {memory} GiB, QEMU under {accelerator.name}; medians of {runs} "
        "runs (cells: three times as many), alternating with what they are held against."
    )
    return figures, machine
