"""The magics as IPython knows them in the guest: wherever in a cell, each is a call to the host."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from IPython.core.error import UsageError
from IPython.display import publish_display_data  # pyright: ignore[reportUnknownVariableType]

from branchpoint.calls import Woken, ask_magic
from branchpoint.errors import BranchpointError, CellEnded

LINE_MAGICS = (
    "checkpoint",
    "annotate",
    "fork",
    "rollback",
    "undo",
    "autocheckpoint",
    "diff",
    "branches",
    "checkpoints",
    "lineage",
    "switch",
    "keep",
    "drop",
    "pause",
    "resume",
    "image",
    "egress",
    "secrets",
    "ledger",
    "costs",
    "forward",
    "put",
    "get",
)
CELL_MAGICS = ("branch",)


class Magics(Protocol):
    """What is used of IPython's InteractiveShell, which has no complete types."""

    def register_magic_function(
        self, func: Callable[..., Any], magic_kind: str, magic_name: str
    ) -> None: ...


def perform(name: str, line: str, cell: str = "") -> int | None:
    """Do one magic and show what comes of it; `%fork` gives the branch's index.

    Where the machine was woken from a checkpoint taken at this magic, its cell is over: CellEnded.
    But a fork made by it carries on.
    """
    try:
        answer = ask_magic(name, line, body=cell, by="magic")
    except BranchpointError as error:
        if error.kind != "UsageError":
            raise
        raise UsageError("\n".join(filter(None, (str(error), error.hint)))) from None
    if isinstance(answer, Woken):
        if name == "fork" and answer.reason == "fork":
            return answer.index
        raise CellEnded(f"woken by {answer.reason}")
    if answer.data:
        publish_display_data(answer.data)
    return answer.value.get("index") if name == "fork" else None


def register(shell: Magics) -> None:
    """Make all of them known."""
    for name in LINE_MAGICS:
        shell.register_magic_function(partial(perform, name), "line", name)
    for name in CELL_MAGICS:
        shell.register_magic_function(partial(perform, name), "cell", name)
