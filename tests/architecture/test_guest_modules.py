"""Guest code runs where nothing of ours is installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.house import ROOT

GUEST = ROOT / "vmruntime" / "branchpoint_guest"
MODULES = sorted(f"branchpoint_guest.{path.stem}" for path in GUEST.glob("[!_]*.py"))


def import_alone(module: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Import a module with a Python that has its standard library, `folder` and nothing else."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", MODULES)
def test_a_guest_module_needs_only_the_standard_library(module: str) -> None:
    result = import_alone(module, GUEST.parent)
    assert result.returncode == 0, result.stderr


def test_a_module_that_needs_more_is_found(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("import ipykernel\n")
    assert "No module named 'ipykernel'" in import_alone("needy", tmp_path).stderr
