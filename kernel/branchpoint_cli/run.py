"""`branchpoint run`: run code in a branch's kernel and show what it wrote."""

import argparse
import sys

from rich.console import Console

from branchpoint_cli.common import add_common
from branchpoint_cli.screen import as_json, standard_error
from branchpoint_cli.sessions import asked
from branchpoint_vmruntime.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("code", metavar="CODE", help="the code; `-` reads it from standard input")
    add_common(parser, branch=True)


def run(options: argparse.Namespace, console: Console) -> int:
    """Run it; 1 if it raised an error."""
    code = _standard_input() if options.code == "-" else options.code
    result = asked(options, lambda session: session.run(code, branch=options.branch))
    if options.json:
        as_json(result, console)
    elif result.text:
        console.out(result.text, end="" if result.text.endswith("\n") else "\n")
    if result.status != "ok" and not options.json:
        raised = f"{result.error_name}: {result.error_value}".strip(": ")
        standard_error().print(f"✗ {raised or result.status}", markup=False)
    return 0 if result.status == "ok" else 1


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"what comes in at standard input is not UTF-8 text (byte {error.start})"
        ) from error
