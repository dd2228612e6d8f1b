"""`branchpoint setup`: install or build what this host lacks."""

import argparse
import asyncio

from rich.console import Console

from branchpoint_cli.progress import ShownProgress
from branchpoint_kernel import kernelspec
from branchpoint_vmruntime import Runtime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""
    del parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Install or build what is missing, each step skipped when its result is there."""
    del options
    with ShownProgress(console) as progress:
        asyncio.run(Runtime.prepare(progress=progress))
        progress.step("kernelspec")
        progress.done(str(kernelspec.install()))
    return 0
