"""The quickstart, as a user runs it: in real machines, every proof of it an assert."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from tests.architecture.house import ROOT

from branchpoint_cli.demo import run_demo
from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

FORKS = ["ridge", "forest", "boost"]


@pytest.fixture(scope="module")
def output(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder a demo has filled."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("demo-output")
    said = io.StringIO()
    notebook = ROOT / "notebooks" / "00-quickstart.ipynb"
    code = run_demo(notebook, folder, console=Console(file=said, width=100))
    assert code == 0, said.getvalue()
    return folder


@pytest.fixture(scope="module")
def costs(output: Path) -> list[dict[str, str]]:
    """The rows of its cost table."""
    return list(csv.DictReader(io.StringIO((output / "costs.csv").read_text())))


def test_everything_it_promises_is_written(output: Path) -> None:
    written = {path.name for path in output.iterdir() if path.stat().st_size > 100}
    assert written == {
        "00-quickstart.ipynb",
        "00-quickstart.html",
        "lineage.png",
        "costs.csv",
        "costs.md",
    }


def test_every_operation_has_a_cost(costs: list[dict[str, str]]) -> None:
    done = Counter(row["operation"] for row in costs)
    assert done == {
        "checkpoint": 1,
        "fork": 1,
        "awake": 3,
        "branch": 2,
        "run": 6,
        "rollback": 1,
        "keep": 1,
    }
    assert all(float(row["total_ms"]) > 0 for row in costs)


def test_each_fork_was_woken_and_ran_the_cells(costs: list[dict[str, str]]) -> None:
    for operation, times in (("awake", 1), ("run", 2)):
        names = Counter(row["subject"] for row in costs if row["operation"] == operation)
        assert names == dict.fromkeys(FORKS, times)


def test_a_fork_shares_more_memory_than_it_has_to_itself(costs: list[dict[str, str]]) -> None:
    for row in costs:
        if row["operation"] == "awake":
            assert int(row["own_bytes"]) < int(row["shared_bytes"])
