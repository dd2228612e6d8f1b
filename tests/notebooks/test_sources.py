"""The notebooks as they are stored: clean, explained, and with proofs in them."""

import json
from typing import Any

import pytest
from tests.architecture.house import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells_of(name: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "notebooks" / name).read_text())["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_outputs(path: Any) -> None:
    codes = [cell for cell in cells_of(path.name) if cell["cell_type"] == "code"]
    assert codes
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_under_our_kernel(path: Any) -> None:
    metadata = json.loads(path.read_text())["metadata"]
    assert metadata["kernelspec"]["name"] == "branchpoint"


def test_the_quickstart_does_each_thing_once_in_order() -> None:
    sources = ["".join(cell["source"]) for cell in cells_of("00-quickstart.ipynb")]
    magics = [source.split()[0] for source in sources if source.startswith("%")]
    assert magics == [
        "%checkpoint",
        "%fork",
        "%%branch",
        "%%branch",
        "%rollback",
        "%branches",
        "%checkpoints",
        "%keep",
    ]


@pytest.mark.parametrize("cell", ["prove", "diverge", "apart", "wreck", "back", "kept"])
def test_the_quickstart_proves_with_plain_asserts(cell: str) -> None:
    sources = {each["id"]: "".join(each["source"]) for each in cells_of("00-quickstart.ipynb")}
    assert "assert " in sources[cell]
