"""A fresh overlay is the template's bytes, with room beyond them until it is given back."""

import errno
from pathlib import Path

import pytest

from branchpoint_vmruntime.overlay import RESERVE_BYTES, give_back_reserve, make_overlay

CONTENT = b"QFI\xfb" + bytes(100_000)


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    template = tmp_path / "template"
    template.write_bytes(CONTENT)
    return make_overlay(tmp_path / "overlay", template)


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_an_overlay_reads_as_its_template(overlay: Path) -> None:
    assert overlay.read_bytes() == CONTENT


def test_room_is_set_aside_beyond_its_end_and_given_back(overlay: Path) -> None:
    if on_disk(overlay) < RESERVE_BYTES:
        pytest.skip("this file system sets nothing aside")
    give_back_reserve(overlay)
    assert on_disk(overlay) < RESERVE_BYTES
    assert overlay.read_bytes() == CONTENT


def test_what_was_written_since_is_kept_when_the_rest_is_given_back(overlay: Path) -> None:
    with overlay.open("ab") as file:
        file.write(b"more")
    give_back_reserve(overlay)
    assert overlay.read_bytes() == CONTENT + b"more"


def test_of_an_overlay_that_cannot_be_written_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(_template: Path, path: Path) -> None:
        path.write_bytes(CONTENT[:10])
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("shutil.copyfile", half)
    with pytest.raises(OSError, match="no space"):
        make_overlay(tmp_path / "overlay", tmp_path / "template")
    assert list(tmp_path.iterdir()) == []
