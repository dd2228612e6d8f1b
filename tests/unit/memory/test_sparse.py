"""Sparse copies and holes: whatever is done about room, the bytes stay the same."""

import ctypes
import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchpoint_vmruntime.memory import sparse
from branchpoint_vmruntime.memory.sparse import (
    bytes_on_disk,
    copy_range,
    copy_sparse,
    dig_holes,
    punch_hole,
)

BLOCK = 64 * 1024
# Blocks written (with zeros too) or left as holes, and a rest that is no whole block.
BLOCKS = st.lists(st.sampled_from([None, bytes(BLOCK), b"\1" * BLOCK, bytes(BLOCK - 1) + b"\2"]))
RESTS = st.integers(1, BLOCK - 1)


@contextmanager
def sparse_file(blocks: list[bytes | None], rest: int) -> Generator[Path]:
    """A file of these blocks, None being a hole, with a hole of `rest` bytes at its end."""
    with tempfile.TemporaryDirectory(prefix="sparse-") as name:
        path = Path(name) / "file"
        with path.open("wb") as file:
            for place, block in enumerate(blocks):
                if block is not None:
                    os.pwrite(file.fileno(), block, place * BLOCK)
            file.truncate(len(blocks) * BLOCK + rest)
        yield path


@settings(max_examples=40)
@given(BLOCKS, RESTS)
def test_a_sparse_copy_has_the_same_bytes(blocks: list[bytes | None], rest: int) -> None:
    with sparse_file(blocks, rest) as path:
        copy_sparse(path, path.with_name("copy"))
        assert path.with_name("copy").read_bytes() == path.read_bytes()


@settings(max_examples=40)
@given(BLOCKS, RESTS)
def test_digging_holes_changes_no_byte_and_counts_what_it_dug(
    blocks: list[bytes | None], rest: int
) -> None:
    with sparse_file(blocks, rest) as path:
        before = path.read_bytes()
        assert dig_holes(path) == BLOCK * blocks.count(bytes(BLOCK))
        assert path.read_bytes() == before


def test_every_whole_block_of_zeros_is_dug_out(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * BLOCK) + b"\1" + bytes(2 * BLOCK - 1))
    assert dig_holes(path) == 4 * BLOCK
    assert bytes_on_disk(path) < 4 * BLOCK


def test_blocks_are_dug_out_also_beyond_what_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"\1" * BLOCK + bytes(20 * BLOCK) + b"\1" * BLOCK)
        file.truncate(40 * BLOCK)
    before = path.read_bytes()
    assert dig_holes(path) == 20 * BLOCK
    assert path.read_bytes() == before


def test_a_disk_that_fails_while_holes_are_looked_for_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(2 * BLOCK))

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(OSError, match="Input/output error"):
        dig_holes(tmp_path / "file")


def test_a_copy_of_a_sparse_file_takes_no_more_room(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(64 << 20)
        os.pwrite(file.fileno(), b"\1" * BLOCK, 32 << 20)
    copy_sparse(path, tmp_path / "copy")
    assert bytes_on_disk(tmp_path / "copy") <= 2 * BLOCK


def test_a_sparse_copy_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"new")
    (tmp_path / "copy").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        copy_sparse(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"old"


def test_a_source_that_cannot_be_searched_is_an_error_and_not_an_empty_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"data")

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(fcntl, "ioctl", broken)
    monkeypatch.setattr(os, "lseek", broken)
    with pytest.raises(OSError, match="Input/output error"):
        copy_sparse(tmp_path / "file", tmp_path / "copy")


def test_copying_past_the_end_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"short")
    with (
        (tmp_path / "source").open("rb") as source,
        (tmp_path / "target").open("wb") as target,
        pytest.raises(OSError, match="became shorter"),
    ):
        copy_range(source.fileno(), target.fileno(), source_offset=0, target_offset=0, size=9)


def with_a_hole(path: Path) -> bytes:
    """The bytes of a file of ones in which a hole was punched."""
    path.write_bytes(b"\1" * (3 * BLOCK))
    with path.open("r+b") as file:
        punch_hole(file.fileno(), BLOCK + 10, BLOCK)
    return path.read_bytes()


HOLED = b"\1" * (BLOCK + 10) + bytes(BLOCK) + b"\1" * (BLOCK - 10)


def test_a_hole_reads_as_zeros_and_the_rest_is_kept(tmp_path: Path) -> None:
    assert with_a_hole(tmp_path / "file") == HOLED


def test_where_no_hole_can_be_made_zeros_are_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unable:
        """A C library whose file system makes no holes."""

        @staticmethod
        def fallocate(*_: object) -> ctypes.c_int | int:
            return -1

    real = os.pwrite

    def in_bits(fd: int, data: memoryview, offset: int) -> int:
        return real(fd, data[:1000], offset)

    monkeypatch.setattr(sparse, "_libc", Unable)
    monkeypatch.setattr(os, "pwrite", in_bits)
    assert with_a_hole(tmp_path / "file") == HOLED
