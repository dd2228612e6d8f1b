"""The notebook about code that saves, forks and rolls back itself, as a user runs it."""

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


@pytest.fixture(scope="module")
def output(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that running it has filled."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("inside-output")
    said = io.StringIO()
    notebook = ROOT / "notebooks" / "01-inside-the-code.ipynb"
    code = run_demo(notebook, folder, console=Console(file=said, width=100))
    assert code == 0, said.getvalue()
    return folder


def test_each_step_of_the_loop_and_the_tidy_machine_were_saved_once(output: Path) -> None:
    rows = csv.DictReader(io.StringIO((output / "costs.csv").read_text()))
    saved = Counter(row["subject"] for row in rows if row["operation"] == "checkpoint")
    assert saved == dict.fromkeys(["boil0", "boil1", "boil2", "boil3", "tidy"], 1)
