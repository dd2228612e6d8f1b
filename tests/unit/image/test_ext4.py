"""File systems come out the same whoever makes them, and whole."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.ext4 import make_ext4, normalise

SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def program(name: str) -> str:
    found = shutil.which(name, path=SBIN)
    if found is None:
        pytest.skip(f"{name} is not on this host")
    return found


def fill(folder: Path, *, mtime: int) -> Path:
    folder.mkdir()
    (folder / "file").write_text("content")
    (folder / "big").write_bytes(b"x" * 300_000)
    (folder / "link").symlink_to("file")
    os.link(folder / "file", folder / "second")
    (folder / "sub").mkdir()
    for path in (*folder.iterdir(), folder):
        os.utime(path, (mtime, mtime), follow_symlinks=False)
    return folder


def make(image: Path, folder: Path) -> Path:
    make_ext4([program("mke2fs")], image, size_mib=8, inode_bytes=16384, folder=folder)
    return image


def test_two_makings_of_the_same_folder_are_the_same_bytes(tmp_path: Path) -> None:
    one = make(tmp_path / "one.ext4", fill(tmp_path / "one", mtime=1_000_000_000))
    two = make(tmp_path / "two.ext4", fill(tmp_path / "two", mtime=1_700_000_000))
    assert one.read_bytes() == two.read_bytes()


def test_the_file_system_is_clean(tmp_path: Path) -> None:
    image = make(tmp_path / "a.ext4", fill(tmp_path / "a", mtime=1))
    done = subprocess.run([program("e2fsck"), "-fn", image], check=False, capture_output=True)
    assert done.returncode == 0, done.stdout


def test_files_are_in_it_and_belong_to_root(tmp_path: Path) -> None:
    image = make(tmp_path / "a.ext4", fill(tmp_path / "a", mtime=1))
    argv = [program("debugfs"), "-R", "stat /file", str(image)]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert "User:     0   Group:     0" in shown
    assert "Size: 7" in shown


def test_something_else_is_not_rewritten(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(bytes(8192))
    with pytest.raises(ImageBuildError):
        normalise(other)
    assert other.read_bytes() == bytes(8192)
