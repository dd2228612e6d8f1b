"""In words what became of work whose machine was taken from it. Pure."""

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.lineage import BranchState


def why_left(branch: Branch) -> str:
    """What a cell is told whose machine is not its branch's any more."""
    match branch.state:
        case BranchState.DROPPED:
            return f"branch {branch.name!r} was given up, and what was under way in it"
        case BranchState.PARKED | BranchState.PAUSED:
            return (
                f"branch {branch.name!r} was saved, with what is under way, and is {branch.state}"
            )
        case _:
            return (
                f"branch {branch.name!r} went on from another moment; "
                "what was under way in it was left behind"
            )
