"""`branchpoint completion`: what makes a shell complete the command's words."""

import argparse

from argcomplete.shell_integration import shellcode
from rich.console import Console

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to complete")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print what the shell is to read, such as by `eval "$(branchpoint completion bash)"`."""
    console.out(shellcode(["branchpoint"], shell=options.shell))
    return 0
