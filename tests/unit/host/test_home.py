"""State lies where the user says, closed to others."""

from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import StorageError
from branchpoint_vmruntime.home import Home


@pytest.fixture(autouse=True)
def plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BRANCHPOINT_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_home_is_in_the_users_data_folder(tmp_path: Path) -> None:
    assert Home.default().root == tmp_path / ".local/share/branchpoint"


def test_another_data_folder_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Home.default().root == tmp_path / "data/branchpoint"


def test_branchpoint_home_is_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "mine"))
    assert Home.default() == Home(tmp_path / "mine", tmp_path / "mine/run")


def test_a_relative_home_does_not_move_with_the_folder_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRANCHPOINT_HOME", "mine")
    assert Home.default().root == tmp_path / "mine"


def test_run_files_go_where_they_end_with_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert Home.default().run == tmp_path / "branchpoint"


def test_run_files_go_into_the_home_without_such_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    home = Home.default()
    assert home.run == home.root / "run"


def test_every_folder_is_made_and_closed_to_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "run")
    (tmp_path / "home").mkdir(mode=0o755)
    home.ensure()
    folders = [home.root, home.run, home.images, home.layers, home.flat, home.tools, home.live]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_a_home_that_cannot_be_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be used") as caught:
        Home(tmp_path / "file/home", tmp_path / "run").ensure()
    assert "BRANCHPOINT_HOME" in caught.value.hint
