"""The quickstart notebook for clients that run it: its cells, and whether a run of it held."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "notebooks" / "00-quickstart.ipynb"


def code_cells(path: Path = QUICKSTART) -> list[dict[str, Any]]:
    """The code cells of a stored notebook."""
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def sources() -> list[str]:
    """The code of each cell, in order."""
    return ["".join(cell["source"]) for cell in code_cells()]


def assert_every_proof_held(path: Path) -> None:
    """Every cell of a stored run put out something, none an error, the last what only it knows.

    The proofs themselves are asserts in the cells.
    """
    cells = code_cells(path)
    assert len(cells) == len(sources())
    for cell in cells:
        assert cell["outputs"], f"nothing came of {cell['source']}"
        errors = [out for out in cell["outputs"] if out["output_type"] == "error"]
        assert not errors, errors
    assert_last_cell("".join(cells[-1]["outputs"][0]["text"]))


def assert_last_cell(printed: str) -> None:
    """The last cell found the branch that was kept, its server and its counter."""
    assert "boost: R2 " in printed
    assert "the counter says 594" in printed
