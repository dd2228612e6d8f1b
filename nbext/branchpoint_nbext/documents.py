"""The copy of a notebook's document, up to where a branch began. Pure."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from branchpoint_vmruntime.lineage import Cell

KERNEL = {"display_name": "Python 3 (microVM)", "language": "python", "name": "branchpoint"}
# Of the document's metadata: where the copy comes from.
NOTE = "branchpoint_copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whence:
    """Where a copy comes from: the session, its branch, the notebook, a checkpoint by its label."""

    session: str
    branch: str
    notebook: str
    checkpoint: str


def copy_up_to(document: Mapping[str, Any], line: Sequence[Cell], whence: Whence) -> dict[str, Any]:
    """A document with all cells up to the last of a line of work, outputs and all.

    `line` are the cells that were run up to where the branch began, oldest first.
    """
    content = copy.deepcopy(dict(document))
    content["cells"] = content["cells"][: last_of(content["cells"], line)]
    metadata = {**content.get("metadata", {}), "kernelspec": dict(KERNEL)}
    content["metadata"] = {**metadata, NOTE: asdict(whence)}
    return content


def last_of(cells: Sequence[Mapping[str, Any]], line: Sequence[Cell]) -> int:
    """How many cells of a document there are up to the last that a line of work is known to have.

    By their ids; in a document without, or once those cells are gone from it, by their numbers. A
    line without cells has what stands before the first code.
    """
    ids = {cell.get("id"): place for place, cell in enumerate(cells, 1) if cell.get("id")}
    for ran in reversed(line):
        if ran.id in ids:
            return ids[ran.id]
    if line:
        most = max(ran.count for ran in line)
        counted = [place for place, cell in enumerate(cells, 1) if 0 < _count(cell) <= most]
        if counted:
            return counted[-1]
    code = [place for place, cell in enumerate(cells) if cell.get("cell_type") == "code"]
    return code[0] if code else len(cells)


def _count(cell: Mapping[str, Any]) -> int:
    count = cell.get("execution_count")
    return count if isinstance(count, int) else 0
