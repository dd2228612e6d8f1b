"""The colours of branches in pictures, and who has which. Pure.

The rule is that of nbext/src/lineage/colours.ts, so that picture and tree agree.
"""

from collections.abc import Mapping, Sequence

from branchpoint_vmruntime.lineage import BranchName, BranchRecord

# Okabe and Ito's colours, which colour-blind readers can tell apart, and still can now that they
# are darkened to read as text.
COLOURS = ("#0072b2", "#b04200", "#007552", "#a0457c", "#205050", "#706030")


def colour_numbers(branches: Sequence[BranchRecord]) -> Mapping[BranchName, int]:
    """The number of each branch's colour, by its name; `branches` are in the order of making.

    It is the next one, round and round, but for that of the branch it was made from.
    """
    numbers: dict[BranchName, int] = {}
    number = 0
    for branch in branches:
        of_parent = None if branch.parent is None else numbers.get(branch.parent)
        if number == of_parent:
            number = _after(number)
        numbers[branch.name] = number
        number = _after(number)
    return numbers


def _after(number: int) -> int:
    return (number + 1) % len(COLOURS)
