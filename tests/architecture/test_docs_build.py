"""The documentation builds, and without a single warning."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.house import ROOT

pytest.importorskip("sphinx", reason="the documentation needs Sphinx (extra: dev)")
pytest.importorskip("myst_parser", reason="the documentation needs MyST (extra: dev)")


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-E", ROOT / "docs", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
