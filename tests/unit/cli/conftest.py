"""What tests of commands share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from branchpoint_vmruntime.home import Home


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home in which nothing was opened yet."""
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    home = Home.default()
    home.ensure()
    return home


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], Any]:
    """What was written to standard output since last asked for, as JSON."""
    return lambda: json.loads(capsys.readouterr().out)
