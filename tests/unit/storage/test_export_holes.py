"""Where a file has holes is the file system's to say, and it may say otherwise when asked again."""

import ctypes
import os
from pathlib import Path

import pytest
from tests.unit.storage.moving import BASE, MIB, Furnished, furnished, home_with_image, take_in

from branchpoint_vmruntime.memory.sparse import data_ranges
from branchpoint_vmruntime.store import Layer

DATA_BYTES, EACH_BYTES = 4096, 128 << 10


@pytest.fixture
def there(tmp_path: Path) -> Furnished:
    """A home whose base has many small islands of data, each with a hole after it."""
    made = furnished(tmp_path / "there", noted=False)
    with made.layer(BASE).memory.open("r+b") as file:
        for start in range(0, MIB, EACH_BYTES):
            file.seek(start)
            file.write(b"\x07" * DATA_BYTES)
    return made


def test_a_file_whose_holes_are_told_otherwise_when_asked_again_is_taken_in(
    there: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = os.lseek, dict[int, int]()

    def forgetful(fd: int, offset: int, how: int) -> int:
        """The truth the first time; whoever begins anew hears that it is all data."""
        if how == os.SEEK_DATA and offset == 0:
            begun[fd] = begun.get(fd, 0) + 1
        if begun.get(fd, 0) < 2 or how not in (os.SEEK_DATA, os.SEEK_HOLE):
            return real(fd, offset, how)
        return offset if how == os.SEEK_DATA else os.fstat(fd).st_size

    monkeypatch.setattr(os, "lseek", forgetful)
    _assert_moved(there, tmp_path)


def test_room_that_was_set_aside_and_is_read_meanwhile_does_not_make_a_file_that_is_refused(
    there: Furnished, tmp_path: Path
) -> None:
    memory = there.layer(BASE).memory
    with memory.open("r+b") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        zero, size = ctypes.c_long(0), ctypes.c_long(MIB)
        if libc.fallocate(file.fileno(), 1, zero, size) != 0:
            pytest.skip("this file system sets no room aside")
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    # It has no note of its digest, so it is read after it was asked where it has holes.
    _assert_moved(there, tmp_path)


def test_nothing_is_told_of_what_a_file_has_grown_by(tmp_path: Path) -> None:
    path = tmp_path / "grown"
    path.write_bytes(b"x" * 10_000)
    with path.open("rb") as file:
        assert list(data_ranges(file.fileno(), 6_000)) == [(0, 6_000)]


def test_a_file_that_grows_behind_a_hole_has_no_data_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "grown"
    with path.open("wb") as file:
        file.seek(MIB)
        file.write(b"x")
    with path.open("rb") as file:
        assert list(data_ranges(file.fileno(), MIB // 2)) == []


def _assert_moved(there: Furnished, tmp_path: Path) -> None:
    here = home_with_image(tmp_path / "here")
    take_in(here, there.export(tmp_path / "file.bp").file)
    moved = Layer(here.layers / "base" / BASE).memory
    assert moved.read_bytes() == there.layer(BASE).memory.read_bytes()
