"""The notebook about the outside world, as a user runs it. It proves with asserts of its own."""

import io
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from tests.architecture.house import ROOT

from branchpoint_cli.demo import run_demo
from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

NAME = "02-the-outside.ipynb"


@pytest.fixture(scope="module")
def folder(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder it was run in; `out` in it has been filled by the demo."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("outside")
    notebook = Path(shutil.copy(ROOT / "notebooks" / NAME, folder))
    said = io.StringIO()
    code = run_demo(notebook, folder / "out", console=Console(file=said, width=100))
    assert code == 0, said.getvalue()
    return folder


def test_the_file_that_it_brings_out_is_beside_the_notebook(folder: Path) -> None:
    cells = (folder / "out" / NAME).read_text().count('"cell_type": "code"')
    assert f"code,{cells}" in (folder / "summary.csv").read_text().splitlines()


def test_the_secret_that_it_uses_is_not_in_what_it_shows(folder: Path) -> None:
    shown = (folder / "out" / NAME).read_text()
    assert "Bearer *****" in shown
    assert os.environ["PATH"] not in shown
