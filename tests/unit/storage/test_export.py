"""A checkpoint as a file: what is exported, what is not, and nothing half-written."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.moving import (
    BASE,
    FACTS,
    FIRST,
    SECOND,
    SESSION,
    Furnished,
    furnished,
    home_with_image,
    take_in,
)

from branchpoint_vmruntime.errors import DamagedError, HostError, StorageError, UsageError
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage.digests import check
from branchpoint_vmruntime.storage.exporting import export_checkpoint, newest_checkpoint
from branchpoint_vmruntime.store import Layer


def test_layers_without_notes_are_hashed_when_they_are_exported(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there", noted=False)
    here = home_with_image(tmp_path / "here")
    taken = take_in(here, made.export(tmp_path / "file.bp").file)
    assert check(Layer(here.layers / taken.session.id / SECOND)) == []


def test_a_damaged_layer_is_not_exported(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    memory = made.layer(FIRST).memory
    data = bytearray(memory.read_bytes())
    data[-1] ^= 1
    memory.write_bytes(data)
    with pytest.raises(DamagedError, match=r"checkpoint 'loaded'.*memory"):
        made.export(tmp_path / "file.bp")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("call", "of"), [("preadv", "memory "), ("lseek", "memory "), ("open", "")]
)
def test_of_a_layer_that_the_disk_does_not_give_that_is_said_and_nothing_of_the_file(
    there: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, of: str
) -> None:
    real = getattr(os, call)
    memory = there.layer(FIRST).memory

    def failing(what: int | Path, *rest: Any) -> Any:
        """What is asked of that file fails, by its name or where it is open."""
        path = Path(f"/proc/self/fd/{what}") if isinstance(what, int) else what
        if path.exists() and path.samefile(memory):
            raise OSError(5, "Input/output error")
        return real(what, *rest)

    monkeypatch.setattr(os, call, failing)
    said = rf"checkpoint 'loaded' \(f.*\) is damaged: {of}.*cannot be read: Input/output error"
    with pytest.raises(DamagedError, match=said) as caught:
        there.export(tmp_path / "file.bp")
    assert "verify" in (caught.value.hint or "")
    assert "file.bp" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_too_many_open_files_are_no_damage(
    there: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", none_left)
        with pytest.raises(HostError, match=r"checkpoint 'base'.* Too many open files") as caught:
            there.export(tmp_path / "file.bp")
    assert not isinstance(caught.value, StorageError)


def test_a_checkpoint_that_is_removed_meanwhile_is_exported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = furnished(tmp_path / "there")
    shutil.copytree(made.home.root, tmp_path / "kept")

    class Removing(SilentProgress):
        def step(self, title: str) -> None:
            shutil.rmtree(made.home.layers / SESSION)

    file = tmp_path / "file.bp"
    session, checkpoint = made.session, made.checkpoint()
    export_checkpoint(made.home, session, checkpoint, file, progress=Removing())
    here = home_with_image(tmp_path / "here")
    taken = take_in(here, file)
    kept = tmp_path / "kept" / "layers" / SESSION / SECOND / "memory"
    assert (here.layers / taken.session.id / SECOND / "memory").read_bytes() == kept.read_bytes()


def test_a_file_that_is_there_is_not_written_over(there: Furnished, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("precious")
    with pytest.raises(UsageError, match="already a file"):
        there.export(file)
    assert file.read_text() == "precious"


def test_a_base_is_not_exported(there: Furnished, tmp_path: Path) -> None:
    base = there.checkpoint(BASE)
    with pytest.raises(UsageError, match="fresh machine"):
        export_checkpoint(
            there.home, there.session, base, tmp_path / "x", progress=SilentProgress()
        )


def test_a_folder_that_is_not_there_is_said_in_words(there: Furnished, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        there.export(tmp_path / "nowhere" / "file.bp")


def test_a_disk_that_fails_leaves_no_half_file(
    there: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="full"):
        there.export(tmp_path / "file.bp")
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_may_read_what_was_exported(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_name_the_current_branchs_last_checkpoint_is_meant(there: Furnished) -> None:
    with Journal.read(there.home.database) as journal:
        assert newest_checkpoint(journal, there.session).id == SECOND


def test_of_a_session_that_saved_nothing_there_is_nothing_to_export(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    with Journal.open(made.home.database) as journal:
        (branch,) = journal.branches(SESSION)
        journal.put_branch(replace(branch, head=BASE))
        with pytest.raises(UsageError, match="saved nothing"):
            newest_checkpoint(journal, made.session)


def test_an_image_that_is_gone_is_said(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    shutil.rmtree(made.home.images / FACTS.image)
    with pytest.raises(HostError, match="image"):
        made.export(tmp_path / "file.bp")
