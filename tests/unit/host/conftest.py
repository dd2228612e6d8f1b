"""Homes, and programs that say what a test wants them to say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from branchpoint_vmruntime.home import Home

MakeProgram = Callable[[str, str], Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home", tmp_path / "run")
    home.ensure()
    return home


@pytest.fixture
def make_program(tmp_path: Path) -> MakeProgram:
    """`make_program(name, script)` is an executable shell script."""

    def make(name: str, script: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make
