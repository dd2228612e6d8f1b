"""How a command says that it could not, and what it ends with then."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches

from rich.console import Console

from branchpoint_vmruntime.errors import (
    BranchpointError,
    HostError,
    SessionBusyError,
    UnknownNameError,
)

FAILED = 1
UNKNOWN = 3
BUSY = 4
_MEANT = "did you mean"
# The runtime's words are mostly read in notebooks; the same things are done by these commands.
_COMMANDS = {"checkpoints": "tree", "branches": "tree", "lineage": "tree"} | {
    name: name
    for name in ("checkpoint", "drop", "forward", "fork", "pause", "resume", "rollback", "switch")
}
_MAGIC = re.compile(r"%({})\b".format("|".join(_COMMANDS)))


def status_of(error: BranchpointError) -> int:
    """What a command ends with that failed so."""
    if isinstance(error, UnknownNameError):
        return UNKNOWN
    return BUSY if isinstance(error, SessionBusyError) else FAILED


def of_the_system(error: OSError) -> HostError:
    """What the system refused, where nobody knew more to say of it.

    >>> str(of_the_system(PermissionError(13, "Permission denied", "/home/you/lineage.db")))
    "'/home/you/lineage.db' cannot be used: Permission denied"
    """
    what = "something here" if error.filename is None else repr(os.fsdecode(error.filename))
    return HostError(
        f"{what} cannot be used: {error.strerror or error}",
        hint="look at who may use it, and at what BRANCHPOINT_HOME names",
    )


def tell(error: BranchpointError, console: Console) -> None:
    """What went wrong, and what to do about it."""
    hint = error.hint
    # Who looked for it may know better what was meant than the list of what there is.
    if isinstance(error, UnknownNameError) and not hint.startswith(_MEANT):
        hint = near(error.name, error.known) or hint
    console.print("✗", style="red", end=" ")
    console.print(as_commands(str(error)), markup=False)
    if hint:
        console.print(f"  {as_commands(hint)}", markup=False)


def as_commands(text: str) -> str:
    """Words that name magics, naming commands instead.

    >>> as_commands("`%switch main~1` wakes it; %checkpoints lists them all")
    '`branchpoint switch main~1` wakes it; branchpoint tree lists them all'
    """
    return _MAGIC.sub(lambda found: f"branchpoint {_COMMANDS[found[1]]}", text)


def near(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as a question; nothing if nothing is close.

    >>> near("chekpoint", ["checkpoint", "fork"])
    "did you mean 'checkpoint'?"
    """
    found = get_close_matches(word, list(known), n=1)
    return f"{_MEANT} {found[0]!r}?" if found else ""
