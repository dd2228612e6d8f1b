"""`branchpoint export`: what is written, what is said of it, and what is refused."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.moving import (
    FIRST,
    SECOND,
    SESSION,
    Furnished,
    empty_home,
    furnished,
    home_with_image,
    take_in,
)

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.lineage.journal import Journal

Captured = pytest.CaptureFixture[str]
Said = Callable[[], Any]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Furnished:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "there"))
    return furnished(tmp_path / "there")


def test_what_was_saved_last_is_written_for_this_user_alone_and_told(
    there: Furnished, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "Datei ü.bp"
    assert main(["export", "-o", str(file)]) == 0
    first, second = capsys.readouterr().out.strip().splitlines()
    assert first.startswith(f"● trained is in {file}")
    assert "3 checkpoints that hold" in first
    assert "with the image" not in first
    assert "all that is in that machine's memory and on its disk" in second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert take_in(home_with_image(tmp_path / "elsewhere"), file).checkpoint.id == SECOND


def test_as_json_it_says_what_is_in_the_file(there: Furnished, tmp_path: Path, said: Said) -> None:
    file = tmp_path / "trained.bp"
    assert main(["export", "loaded", "-o", str(file), "--with-image", "--json"]) == 0
    told = said()
    assert {name: told[name] for name in ("file", "session", "checkpoint", "branch")} == {
        "file": str(file),
        "session": SESSION,
        "checkpoint": FIRST,
        "branch": "main",
    }
    assert told["checkpoints"] == 2
    assert told["with_image"] is True
    assert told["bytes"] == file.stat().st_size
    assert take_in(empty_home(tmp_path / "elsewhere"), file).checkpoint.id == FIRST


def test_a_file_that_is_there_is_not_written_over(
    there: Furnished, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "mine"
    file.write_text("mine")
    assert main(["export", "-o", str(file)]) == 1
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.parametrize("words", [["nothing"], ["--session", "nobody"]])
def test_what_is_not_known_ends_with_3_and_writes_nothing(
    there: Furnished, tmp_path: Path, words: list[str], capsys: Captured
) -> None:
    file = tmp_path / "none.bp"
    assert main(["export", *words, "-o", str(file)]) == 3
    assert words[-1] in capsys.readouterr().err
    assert not file.exists()


def test_of_a_session_that_has_saved_nothing_there_is_nothing_to_write(
    there: Furnished, tmp_path: Path, capsys: Captured
) -> None:
    with Journal.open(there.home.database) as journal:
        none = replace(there.session, id=SessionId("0e5510a0aaaa"), key="/home/me/new.ipynb")
        journal.add_session(none)
    file = tmp_path / "none.bp"
    assert main(["export", "-o", str(file), "--session", "new.ipynb"]) == 1
    said = capsys.readouterr().err
    assert "has saved nothing yet" in said
    assert "take a checkpoint first" in said
    assert not file.exists()


def test_without_a_file_to_write_it_is_misuse(there: Furnished) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export"])
    assert ended.value.code == 2
