"""What is said below IPython's word that it knows no such magic. Pure."""

from collections.abc import Callable

from branchpoint_kernel.cells import near_miss
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.messages import Request


def hint_for(request: Request) -> Callable[[str], str | None]:
    """For what a cell prints: the magic of ours that was probably meant, if that is what it is."""
    if request.type != "execute_request" or b"%" not in request.message.content:
        return lambda text: None
    meant = near_miss(str(request.message.read()["code"]))

    def hint(text: str) -> str | None:
        if meant is None or "magic" not in text or "not found" not in text:
            return None
        marked = MAGICS[meant].marked
        return f"Did you mean {marked}? Type {marked}? to read about it.\n"

    return hint
