"""An apt of our own keeps everything in its folder and fails in words."""

from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image import apt
from branchpoint_vmruntime.image.sources import Archive, Mirrors


def test_every_writable_place_is_in_the_folder(tmp_path: Path) -> None:
    text = apt.config_text(tmp_path, tmp_path / "status")
    places = [line for line in text.splitlines() if line.startswith(("Dir::State", "Dir::Cache"))]
    assert len(places) >= 5
    assert all(f'"{tmp_path}' in line for line in places)


def test_both_formats_of_sources_are_read_and_other_files_are_not(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one/debian trixie main\n")
    (parts / "b.list").write_text("deb http://two/debian trixie main\n")
    (parts / "a.sources").write_text(
        "Types: deb\nURIs: http://three/debian\nSuites: trixie\nComponents: main\n"
    )
    (parts / "old.list.save").write_text("deb http://four/debian trixie main\n")
    uris = [archive.uri for archive in apt.host_archives(tmp_path)]
    assert uris == ["http://one/debian", "http://three/debian", "http://two/debian"]


def test_a_host_without_apt_sources_has_no_archive(tmp_path: Path) -> None:
    assert apt.host_archives(tmp_path / "nothing") == []


def test_a_mirror_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    gone = Archive(f"file:{tmp_path}/gone", ("bookworm",), ("main",))
    private = apt.PrivateApt(tmp_path / "apt", Mirrors(gone, None).sources("bookworm"))
    with pytest.raises(ImageBuildError, match="could not fetch the package lists") as caught:
        private.update()
    assert "apt-get update" in caught.value.hint


def test_a_host_that_names_no_debian_archive_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "host_archives", list[Archive])
    with pytest.raises(ImageBuildError, match="names no Debian archive"):
        apt.open_apt(tmp_path / "apt", "bookworm")


def test_the_first_mirror_that_fails_is_the_one_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = [
        Archive(f"file:{tmp_path}/{name}", ("bookworm",), ("main",)) for name in ("one", "two")
    ]
    monkeypatch.setattr(apt, "host_archives", lambda: archives)
    with pytest.raises(ImageBuildError, match="/one"):
        apt.open_apt(tmp_path / "apt", "bookworm")
