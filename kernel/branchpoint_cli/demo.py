"""The demo: run a notebook under its kernel, say how each cell went, write down what it cost.

What is written into the output folder: the executed notebook, an HTML of it, `lineage.png`,
`costs.csv` and `costs.md`.
"""
# nbclient, nbconvert and nbformat are partly typed.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import argparse
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError
from nbconvert.exporters.html import HTMLExporter
from nbformat import NotebookNode
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from branchpoint_cli.report import (
    HEADINGS,
    LEGEND,
    CostRow,
    Record,
    as_csv,
    as_markdown,
    cells_of,
    cost_rows,
    failure,
    records,
)
from branchpoint_vmruntime.errors import MissingToolError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchName, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.picture import draw, save

KERNEL = "branchpoint"
SESSION_VARIABLE = "BRANCHPOINT_SESSION"
_CELL_TIMEOUT_S = 600
_STARTUP_TIMEOUT_S = 600
_SHOWN_LINES = 18


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument(
        "--notebook", type=Path, default=Path("notebooks/00-quickstart.ipynb"), help="which to run"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="the folder to write into"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the notebook and write what came of it."""
    return run_demo(options.notebook, options.output, console=console)


def run_demo(notebook: Path, output: Path, *, console: Console) -> int:
    """Run `notebook`; 0 if every cell held what it claims, 1 if one did not.

    UsageError if there is no such notebook, MissingToolError if the kernel is not installed.
    """
    if not notebook.is_file():
        raise UsageError(f"there is no notebook {str(notebook)!r}", hint="name it with --notebook")
    started_s = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    for stale in ("lineage.png", "costs.csv", "costs.md"):
        (output / stale).unlink(missing_ok=True)
    node = nbformat.read(notebook, as_version=4)
    problem = _execute(node, notebook.parent, output, console)
    _write_notebook(node, output / notebook.name)
    _write_costs(cost_rows(records(node)), output, console)
    if problem is not None:
        console.print(f"[bold red]The demo failed.[/] {escape(problem)}", soft_wrap=True)
        console.print(f"What ran until then is in {output / notebook.name}", soft_wrap=True)
        return 1
    took_s = time.monotonic() - started_s
    console.print(f"Every proof held. {took_s:.0f} s; all of it is in {output}", soft_wrap=True)
    return 0


def _execute(node: NotebookNode, folder: Path, output: Path, console: Console) -> str | None:
    """Run the cells one by one; what went wrong, in words, or None."""
    client = NotebookClient(
        node,
        kernel_name=node.metadata.get("kernelspec", {}).get("name", KERNEL),
        timeout=_CELL_TIMEOUT_S,
        # nbclient (0.11) leaves out what comes more than 4 s after the reply, without a word.
        iopub_timeout=_CELL_TIMEOUT_S,
        raise_on_iopub_timeout=True,
        startup_timeout=_STARTUP_TIMEOUT_S,
        resources={"metadata": {"path": str(folder)}},
    )
    # A session of its own for each run: the names a run takes are free in the next.
    environment = os.environ | {SESSION_VARIABLE: f"demo-{uuid.uuid4().hex}"}
    try:
        with client.setup_kernel(env=environment):
            problem = _run_cells(client, node, console)
            # Now, not later: when the kernel ends so do its machines, and branches show as parked.
            return problem or _draw_lineage(records(node), output / "lineage.png")
    except NoSuchKernel as error:
        raise MissingToolError(
            f"the kernel {error.name!r} is not installed", hint="run: branchpoint setup"
        ) from error
    except (DeadKernelError, RuntimeError) as error:
        return f"The kernel ended: {error}"


def _run_cells(client: NotebookClient, node: NotebookNode, console: Console) -> str | None:
    heading = ""
    total = sum(cell.cell_type == "code" for cell in node.cells)
    ran = 0
    for number, cell in enumerate(node.cells):
        if cell.cell_type != "code":
            heading = _heading(cell.source) or heading
            continue
        ran += 1
        began_s = time.monotonic()
        try:
            client.execute_cell(cell, number)
        except (CellControlSignal, DeadKernelError) as error:
            console.print(f"{ran:>2}/{total}  [red]failed[/]   {escape(heading)}", highlight=False)
            return _what_failed(node, cell, heading, error)
        took_s = time.monotonic() - began_s
        line = f"{ran:>2}/{total}  {took_s:6.2f} s  {escape(heading)}"
        console.print(line, highlight=False, no_wrap=True, overflow="ellipsis")
        for said in _said(cell):
            console.print(f"[dim]{'':16}{escape(said)}[/]", highlight=False, soft_wrap=True)
    return None


def _what_failed(node: NotebookNode, cell: NotebookNode, heading: str, error: Exception) -> str:
    where = f"cell {cell.id!r} ({heading})" if heading else f"cell {cell.id!r}"
    if isinstance(error, CellExecutionError):
        found = failure(node)
        said = found.message if found else f"{error.ename}: {error.evalue}"
        return f"In {where}: {said}"
    return f"In {where}: {error}"


def _heading(markdown: str) -> str:
    first = markdown.strip().partition("\n")[0]
    return first.lstrip("# ").replace("`", "").strip() if first.startswith("#") else ""


def _said(cell: NotebookNode) -> list[str]:
    """What a cell printed, or the plain text of what it showed."""
    lines: list[str] = []
    for output in cell.outputs:
        if output.output_type == "stream":
            lines += output.text.splitlines()
        elif output.output_type in {"display_data", "execute_result"}:
            lines += output.data.get("text/plain", "").splitlines()
    shown = [line.rstrip() for line in lines if line.strip()]
    rest = len(shown) - _SHOWN_LINES
    return [*shown[:_SHOWN_LINES], f"... {rest} more lines"] if rest > 0 else shown


def _draw_lineage(found: Sequence[Record], path: Path) -> str | None:
    """Draw the session the last record tells of; what is missing for it, in words, or None."""
    if not found:
        return "no cell left a record: nothing was checkpointed, forked or rolled back"
    session = SessionId(found[-1].session)
    with Journal.read(Home.default().database) as journal:
        checkpoints = journal.checkpoints(session)
        branches, operations = journal.branches(session), journal.operations(session)
    if not checkpoints:
        return f"the lineage store knows nothing of session {session!r}"
    save(draw(checkpoints, branches, operations, current=BranchName(found[-1].branch)), path)
    return None


def _write_notebook(node: NotebookNode, path: Path) -> None:
    nbformat.write(node, path)
    html, _ = HTMLExporter().from_notebook_node(node)
    path.with_suffix(".html").write_text(html)


def _write_costs(rows: Sequence[CostRow], output: Path, console: Console) -> None:
    (output / "costs.csv").write_text(as_csv(rows))
    (output / "costs.md").write_text(as_markdown(rows))
    table = Table(
        title="What each operation cost", caption=LEGEND, title_justify="left", box=SIMPLE
    )
    # The cell is in the files; here the room is for numbers.
    for number, heading in enumerate(HEADINGS[1:]):
        table.add_column(heading, justify="right" if number > 1 else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, cells_of(row)[1:]))
    console.print(table)
