"""What tests of commands share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from branchpoint_vmruntime.home import Home


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is taken for what it is: a CI's wish for colour is not for these."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


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
