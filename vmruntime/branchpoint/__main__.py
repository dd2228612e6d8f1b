"""The command `branchpoint` in the guest: the magics, for other languages and shells."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from shlex import join

from branchpoint.calls import Done, Woken, ask_magic
from branchpoint.errors import BranchpointError
from branchpoint.waking import identity

USAGE = """\
usage: branchpoint NAME [ARGUMENT...]

NAME is that of a magic: checkpoint, fork, rollback, branches, checkpoints, ...
The arguments are the magic's own; `branchpoint NAME --help` says what there is.
`branchpoint branch NAMES` runs the cell it reads from its input.
`branchpoint identity` prints which branch this is, as JSON.

`checkpoint` prints "saved" last, or "restored" in a machine that woke from it;
`fork` prints 0 last, or in the forks the number of each.
"""


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit status: 0, 1 for a failure, 2 for a wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    try:
        if arguments[0] == "identity":
            print(json.dumps(asdict(identity())))
            return 0
        return _perform(arguments[0], arguments[1:])
    except BranchpointError as error:
        for text in filter(None, (str(error), error.hint)):
            print(f"branchpoint: {text}", file=sys.stderr)
        return 2 if error.kind == "UsageError" else 1


def _perform(name: str, arguments: Sequence[str]) -> int:
    body = sys.stdin.read() if name == "branch" and not sys.stdin.isatty() else ""
    answer = ask_magic(name, join(arguments), body=body, by="command")
    if isinstance(answer, Done) and answer.data:
        print(answer.data.get("text/plain", ""))
    last = _last_line(name, answer)
    if last is None and isinstance(answer, Woken):
        raise BranchpointError(f"this machine was woken by {answer.reason} meanwhile")
    if last is not None:
        print(last)
    return 0


def _last_line(name: str, answer: Done | Woken) -> str | None:
    """What a script reads; None if there is nothing for it to know, or no answer to the command."""
    match name, answer:
        case "checkpoint", Woken():
            return "restored"
        case "checkpoint", Done(value={"id": _}):
            return "saved"
        case "fork", Woken(reason="fork", index=index):
            return str(index)
        case "fork", Done(value={"index": index}):
            return str(index)
        case _:
            return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
