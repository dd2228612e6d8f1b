"""The notebook about pauses, as a user runs it. It proves with asserts of its own."""

import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from tests.architecture.house import ROOT

from branchpoint_cli.demo import run_demo
from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

NAME = "03-sessions-that-last.ipynb"


@pytest.fixture(scope="module")
def out(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo made of it."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("lasting")
    notebook = Path(shutil.copy(ROOT / "notebooks" / NAME, folder))
    said = io.StringIO()
    code = run_demo(notebook, folder / "out", console=Console(file=said, width=100))
    assert code == 0, said.getvalue()
    return folder / "out"


def test_each_pause_and_each_resumption_has_a_cost(out: Path) -> None:
    with (out / "costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    done = Counter(row["operation"] for row in rows)
    # One of the two branches is resumed by the cell that wants it, the other by name.
    assert (done["pause"], done["resume"]) == (2, 2)
    assert all(float(row["total_ms"]) > 0 for row in rows if row["operation"] == "pause")


def test_what_it_cost_is_drawn_on_its_page(out: Path) -> None:
    stored = json.loads((out / NAME).read_text())
    (cell,) = [cell for cell in stored["cells"] if cell["id"] == "costs"]
    table, charts = (output["data"] for output in cell["outputs"])
    assert "text/html" in table
    page = (out / NAME).with_suffix(".html").read_text()
    assert charts["image/png"].replace("\n", "")[:200] in page.replace("\n", "")
