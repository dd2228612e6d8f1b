"""`branchpoint gc` and `branchpoint verify`: what they say, and what they end with."""

import json
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.storage.layers import FACTS_HERE
from tests.unit.storage.stores import SmallStore

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointKind


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[SmallStore]:
    """base0000 ─ a ─ b, on which a branch stands, and beside b what a rollback left."""
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    home = Home.default()
    home.ensure()
    made = SmallStore(home)
    made.base()
    made.session("7f3c09d2ab41")
    made.checkpoint("a", session="7f3c09d2ab41")
    made.checkpoint("b", "a", session="7f3c09d2ab41", advance=True)
    safety, label = CheckpointKind.SAFETY, "before-rollback-1"
    made.checkpoint("left", "a", session="7f3c09d2ab41", kind=safety, label=label)
    yield made
    made.journal.close()


def test_gc_says_what_went_why_and_what_is_free(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--checkpoints", "2"]) == 0
    first, last = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("✕ checkpoint before-rollback-1")
    assert "/home/me/7f3c09d2ab41.ipynb" in first
    assert "there are more than 2, and what a rollback left is least costly to lose" in first
    assert last.endswith("are free")
    assert not (store.home.layers / "7f3c09d2ab41" / "left").exists()


def test_a_dry_run_says_the_same_and_removes_nothing(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--checkpoints", "2", "--dry-run"]) == 0
    first, last = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("✕ checkpoint before-rollback-1")
    assert last.endswith("would be free   nothing was removed")
    assert (store.home.layers / "7f3c09d2ab41" / "left").exists()


def test_a_budget_that_cannot_be_met_is_told(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--checkpoints", "1"]) == 0
    assert "2 checkpoints are left, and the budget is 1" in capsys.readouterr().out


def test_what_could_not_be_collected_is_told_and_ends_with_1(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(store.home.layers / "7f3c09d2ab41", wait=False):
        assert main(["gc", "--checkpoints", "2"]) == 1
    assert "! /home/me/7f3c09d2ab41.ipynb was left alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--bytes", "20"], "'20' is not a size such as 500mb, 20gb or 1tb"),
        (["--age", "old"], "'old' is not a time such as 90s, 15m, 2h or 1d"),
        (["--checkpoints", "0"], "'0' would keep nothing"),
    ],
)
def test_a_budget_that_is_none_is_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gc", *words])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_gc_as_json_says_what_goes_and_what_stays(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--checkpoints", "2", "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["dry_run"] is True
    assert [each["name"] for each in said["removals"]] == ["before-rollback-1"]
    assert said["freed_bytes"] == said["removals"][0]["bytes"] > 0
    (session,) = said["sessions"]
    assert {each["checkpoint"]: each["why"] for each in session["kept"]} == {
        "a": "'b' descends from it",
        "b": "branch main stands on it",
    }


def test_verify_of_a_whole_store_says_so(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.startswith("✓ 4 checkpoints, ")


def test_damage_is_named_with_all_that_needs_it_and_ends_with_1(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = store.home.layers / "7f3c09d2ab41" / "a" / "memory"
    memory.write_bytes(memory.read_bytes()[:-1] + b"\0")
    assert main(["verify", "7f3c"]) == 1
    said = capsys.readouterr().out
    assert "✗ checkpoint a (a) is damaged" in said
    assert f"{memory}   its bytes are not those that were written" in said
    assert "needed by b (b), before-rollback-1 (left)" in said
    assert "none of these can be restored" in said
    assert main(["verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (damaged,) = found["damaged"]
    assert found["whole"] is False
    assert damaged["checkpoint"] == "a"
    assert [each["checkpoint"] for each in damaged["needed_by"]] == ["b", "left"]
    assert damaged["damages"][0]["path"] == str(memory)


def test_an_image_that_is_gone_is_named_with_all_that_stands_on_it_and_ends_with_1(
    store: SmallStore, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store.home.images / FACTS_HERE.image
    shutil.rmtree(folder)
    assert main(["verify"]) == 1
    said = capsys.readouterr().out
    assert f"✗ image {FACTS_HERE.image} is not as it was" in said
    assert f"{folder}   it is missing" in said
    assert "needed by base (base0000), a (a), b (b), before-rollback-1 (left)" in said
    assert "1 of what is there is damaged" in said
    assert main(["verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (image,) = found["images"]
    assert (found["whole"], found["damaged"]) == (False, [])
    assert image["image"] == FACTS_HERE.image
    assert len(image["needed_by"]) == 4


def test_a_session_that_is_not_there_ends_with_3(store: SmallStore) -> None:
    assert main(["verify", "other.ipynb"]) == 3


def test_where_nothing_was_ever_saved_nothing_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "new"))
    assert main(["verify"]) == 0
    assert capsys.readouterr().out == "nothing was ever saved here\n"
    assert main(["gc", "--dry-run"]) == 0
    assert "nothing goes" in capsys.readouterr().out
