"""Arguments that several commands share, each with its completion."""

import argparse

from branchpoint_cli.completing import branches, checkpoints, completed, sessions
from branchpoint_cli.sessions import HELP

LONGEST_NAME = 200


def add_common(parser: argparse.ArgumentParser, *, branch: bool = False) -> None:
    """`--session`, `--json` and, where one can be told, `--branch`."""
    completed(parser.add_argument("--session", metavar="SESSION", help=HELP), sessions)
    if branch:
        add_branch_option(parser)
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def add_branch_option(parser: argparse.ArgumentParser) -> None:
    """`--branch`."""
    words = "the branch that is meant; by default the current one"
    completed(parser.add_argument("--branch", metavar="NAME", help=words), branches)


def add_checkpoint(parser: argparse.ArgumentParser, *, of: str, nargs: str | None = None) -> None:
    """A checkpoint, or several, by label or id."""
    words = f"{of}: its label, or the start of its id"
    action = parser.add_argument("checkpoint", metavar="CHECKPOINT", nargs=nargs, help=words)
    completed(action, checkpoints)


def positive(text: str) -> int:
    """A number from 1 on, for `type=`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def names(text: str) -> tuple[str, ...]:
    """Names between commas, for `type=`."""
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)


def session_name(text: str) -> str:
    """What a session without a notebook can be called, for `type=`."""
    if not text.strip() or text.startswith("-") or not text.isprintable() or "/" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name for a session: it has characters that can be seen, does not"
            " begin with '-' and has no '/'"
        )
    if len(text) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"a session's name has at most {LONGEST_NAME} characters, not {len(text)}"
        )
    return text
