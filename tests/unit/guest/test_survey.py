"""What a machine's files are said to differ in from its image."""

import base64
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from branchpoint_guest.survey import (
    READ_LIMIT,
    Entry,
    debian_packages,
    layer_entries,
    memory_entries,
    memory_mounts,
    python_packages,
    read_file,
)


@dataclass(frozen=True)
class Layers:
    """An image's folder and the upper folder over it, without an overlay being mounted."""

    image: Path
    upper: Path

    def entries(self) -> dict[str, Entry]:
        found = layer_entries(str(self.upper), str(self.image))
        return {entry.path: entry for entry in found}


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    made = Layers(tmp_path / "image", tmp_path / "upper")
    made.image.mkdir()
    made.upper.mkdir()
    return made


def test_a_new_file_is_told_by_its_content(layers: Layers) -> None:
    (layers.upper / "new").write_text("a")
    (layers.upper / "other").write_text("b")
    found = layers.entries()
    assert found["/new"].kind == "file"
    assert not found["/new"].in_image
    assert found["/new"].size == 1
    assert found["/new"].digest != found["/other"].digest


def test_what_was_copied_up_but_not_changed_is_left_out(layers: Layers) -> None:
    for folder in (layers.image, layers.upper):
        (folder / "touched").write_text("same")
    os.utime(layers.upper / "touched", (1, 1))
    assert layers.entries() == {}


def test_another_content_or_mode_is_a_change_of_what_the_image_has(layers: Layers) -> None:
    for name in ("content", "mode"):
        (layers.image / name).write_text("old")
        (layers.upper / name).write_text("old")
    (layers.upper / "content").write_text("new")
    (layers.upper / "mode").chmod(0o600)
    found = layers.entries()
    assert set(found) == {"/content", "/mode"}
    assert all(entry.in_image for entry in found.values())
    assert found["/mode"].mode == 0o600


def test_a_whiteout_is_a_removal(layers: Layers) -> None:
    (layers.image / "gone").write_text("x")
    try:
        os.mknod(layers.upper / "gone", stat.S_IFCHR, 0)
    except PermissionError:
        pytest.skip("this user may not make the mark that an overlay leaves for a removed file")
    assert layers.entries()["/gone"] == Entry("/gone", "removed", in_image=True)


def test_a_folder_of_the_image_is_no_difference_but_what_is_new_in_it_is(layers: Layers) -> None:
    (layers.image / "etc").mkdir()
    (layers.upper / "etc").mkdir()
    (layers.upper / "etc" / "deep").mkdir()
    (layers.upper / "etc" / "deep" / "file").write_text("x")
    assert set(layers.entries()) == {"/etc/deep", "/etc/deep/file"}


def test_a_folder_that_hides_the_images_removes_what_it_does_not_have(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept", "lost"):
        (layers.image / "d" / name).mkdir(parents=True)
    (layers.upper / "d" / "kept").mkdir(parents=True)

    def opaque(path: str, name: str, *, follow_symlinks: bool = True) -> bytes:
        if path != str(layers.upper / "d") or name != "trusted.overlay.opaque" or follow_symlinks:
            raise OSError("no such attribute")
        return b"y"

    monkeypatch.setattr(os, "getxattr", opaque)
    assert layers.entries() == {"/d/lost": Entry("/d/lost", "removed", in_image=True)}


def test_a_name_that_is_no_text_survives(layers: Layers) -> None:
    (layers.upper / os.fsdecode(b"bad\xff")).write_text("x")
    (path,) = layers.entries()
    assert os.fsencode(path) == b"/bad\xff"


def test_a_link_is_told_by_where_it_points(layers: Layers) -> None:
    (layers.upper / "a").symlink_to("nowhere")
    (layers.upper / "b").symlink_to("elsewhere")
    found = layers.entries()
    assert found["/a"].kind == "link"
    assert found["/a"].digest != found["/b"].digest


def test_our_own_files_are_left_out(layers: Layers) -> None:
    (layers.upper / "opt" / "branchpoint" / "lib").mkdir(parents=True)
    assert set(layers.entries()) == {"/opt"}


def test_everything_in_memory_is_new(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"123")
    (found,) = memory_entries(str(tmp_path))
    assert (found.path, found.kind, found.size) == (f"{tmp_path}/segment", "file", 3)
    assert not found.in_image


def test_mounts_in_memory_are_found_whatever_they_are_called() -> None:
    mountinfo = (
        "31 24 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw,inode64\n"
        "33 29 0:30 / /my\\040data rw shared:1 - tmpfs none rw\n"
        "29 1 0:22 / / rw,noatime - overlay overlay rw,lowerdir=/ro\n"
    )
    assert list(memory_mounts(mountinfo)) == ["/dev/shm", "/my data"]


def test_the_first_folder_that_has_a_package_tells_its_version(tmp_path: Path) -> None:
    for folder, name in (("a", "My_Pkg-2.0"), ("b", "my.pkg-1.0"), ("b", "other-3")):
        (tmp_path / folder / f"{name}.dist-info").mkdir(parents=True)
    packages = python_packages([tmp_path / "a", tmp_path / "b", tmp_path / "missing"])
    assert packages == {"my-pkg": "2.0", "other": "3"}


def test_a_package_that_dpkg_only_remembers_is_not_installed() -> None:
    status = (
        "Package: there\nStatus: install ok installed\nVersion: 1-2\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
    )
    assert debian_packages(status) == {"there": "1-2"}


def test_a_long_file_is_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (READ_LIMIT + 1))
    answer = read_file(tmp_path / "long")
    assert answer["size"] == READ_LIMIT + 1
    assert len(base64.b64decode(answer["content"])) == READ_LIMIT


def test_what_is_no_file_has_no_content(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "pipe") == {"kind": "fifo", "size": 0, "content": ""}
    assert read_file(tmp_path / "missing") == {"kind": "", "size": 0, "content": ""}
