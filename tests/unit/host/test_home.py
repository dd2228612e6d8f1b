"""State lies where the user says, closed to others."""

import contextlib
import os
import pwd
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


@pytest.mark.parametrize("runtime", ["", "gone", "."])
def test_run_files_are_found_by_whoever_finds_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    without = Home.default()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / runtime) if runtime else "")
    assert Home.default() == without
    assert without.run == without.root / "run"


@pytest.mark.parametrize("useless", [None, "", "here/and/there"])
def test_without_a_home_folder_in_the_environment_the_one_on_record_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, useless: str | None
) -> None:
    if useless is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", useless)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pwd.struct_passwd(_user(tmp_path)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert Home.default().root == tmp_path / ".local/share/branchpoint"


def _user(home: Path) -> tuple[str, str, int, int, str, str, str]:
    return ("me", "x", 1, 1, "", str(home), "/bin/sh")


@pytest.mark.parametrize("named", ["", "~nobody-of-that-name/branchpoint"])
def test_a_user_without_any_home_folder_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setenv("BRANCHPOINT_HOME", named)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(StorageError, match="there is no home folder for") as caught:
        Home.default()
    assert "BRANCHPOINT_HOME" in caught.value.hint


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_whatever_the_umask_folders_are_this_users_alone(tmp_path: Path, umask: int) -> None:
    home = Home(tmp_path / "home", tmp_path / "home/run")
    before = os.umask(umask)
    try:
        home.ensure()
    finally:
        os.umask(before)
    assert {it.stat().st_mode & 0o777 for it in (home.root, home.run, home.live)} == {0o700}


def test_a_home_that_was_made_read_only_stays_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "home/run")
    home.ensure()
    home.root.chmod(0o555)
    # Whom modes do not bind can write there all the same.
    with contextlib.nullcontext() if os.getuid() == 0 else pytest.raises(StorageError):
        home.ensure()
    assert home.root.stat().st_mode & 0o777 == 0o500


def test_a_home_whose_name_is_no_text_is_told_in_words(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"\xfc")
    with pytest.raises(StorageError, match="its name is not UTF-8"):
        Home(root, root / "run").ensure()
    assert not root.exists()


def test_a_file_in_place_of_a_home_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(mode=0o644)
    with pytest.raises(StorageError, match="cannot be used"):
        Home(file, file / "run").ensure()
    assert file.stat().st_mode & 0o777 == 0o644


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
