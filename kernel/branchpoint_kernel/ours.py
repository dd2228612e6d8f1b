"""Which shell requests the host answers itself, in their turn. Pure."""

from branchpoint_kernel import assist
from branchpoint_kernel.cells import mentions_a_magic, split
from branchpoint_kernel.messages import Request
from branchpoint_vmruntime.errors import BranchpointError


def is_local(request: Request) -> bool:
    """Whether the host answers a shell request itself, in its turn.

    Of a cell this is known only when its turn comes, and what language the kernel speaks: here it
    is taken for Python, in which more can be ours than in any other.
    """
    if request.subshell is not None:
        return False
    match request.type:
        case "kernel_info_request":
            return True
        case "execute_request":
            return mentions_a_magic(request.message.content) and is_our_cell(request)
        case "complete_request":
            asked = request.message.read()
            return assist.is_about_arguments(asked["code"], asked["cursor_pos"])
        case "inspect_request":
            asked = request.message.read()
            return assist.find_spot(asked["code"], asked["cursor_pos"]) is not None
        case _:
            return False


def is_our_cell(request: Request, language: str = "python") -> bool:
    """Whether a cell in that language is one for the host, or one that it has to refuse."""
    try:
        return split(str(request.message.read()["code"]), language) is not None
    except BranchpointError:
        return True
