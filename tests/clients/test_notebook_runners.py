"""Programs that run a whole notebook run the quickstart: nbclient and papermill."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.quickstart import QUICKSTART, assert_every_proof_held

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

COMMANDS = Path(sys.executable).parent


@pytest.fixture
def copy(home: Home, tmp_path: Path) -> Path:
    """The quickstart in a folder of its own."""
    assert home.database.exists()
    return Path(shutil.copy(QUICKSTART, tmp_path))


def run(folder: Path, argv: Sequence[str | Path]) -> None:
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_nbclient_runs_the_quickstart(copy: Path) -> None:
    run(copy.parent, [COMMANDS / "jupyter-execute", "--inplace", copy])
    assert_every_proof_held(copy)


def test_papermill_runs_the_quickstart(copy: Path) -> None:
    run(copy.parent, [COMMANDS / "papermill", "--no-progress-bar", copy, copy])
    assert_every_proof_held(copy)
