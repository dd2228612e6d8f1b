"""A folder on either side, for tests of files that come in and go out."""

from pathlib import Path

import pytest
from tests.unit.outside.transferring import Guest

from branchpoint_guest import placing


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    """The machine."""
    home = tmp_path / "machine"
    home.mkdir()
    monkeypatch.setattr(placing, "HOME", home)
    return Guest(home)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The notebook's folder."""
    folder = tmp_path / "host"
    folder.mkdir()
    return folder
