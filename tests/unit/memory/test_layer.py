"""The law of memory layers: parent and layer give exactly the child, or the layer is refused."""

import struct
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.memory.memories import (
    CONTENTS,
    MEMORY_BYTES,
    WRITES,
    filled,
    found_in,
    make_layer,
    written,
)

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import PageRun, apply_layer, read_runs

HEAD_BYTES = 28
RUN_BYTES = 16
PARENT = b"\1" * MEMORY_BYTES


@contextmanager
def scratch() -> Generator[Path]:
    """A folder of one example's own."""
    with tempfile.TemporaryDirectory(prefix="layer-") as name:
        yield Path(name)


def applied(layer: Path, parent: bytes) -> bytes:
    """The parent's memory with the layer over it."""
    flat = layer.with_name("flat")
    flat.write_bytes(parent)
    with flat.open("r+b") as file:
        apply_layer(layer, file.fileno())
    return flat.read_bytes()


@given(CONTENTS, WRITES)
def test_parent_and_layer_give_the_new_memory(fills: list[int], writes: dict[int, int]) -> None:
    parent = filled(fills)
    with scratch() as folder:
        make_layer(folder / "layer", parent, writes)
        assert applied(folder / "layer", parent) == written(parent, writes)


@given(CONTENTS, WRITES)
def test_exactly_the_pages_that_differ_are_stored(fills: list[int], writes: dict[int, int]) -> None:
    found = found_in(filled(fills), writes)
    stored = [run.first + place for run, _ in found for place in range(run.count)]
    assert stored == sorted(number for number, fill in writes.items() if fills[number] != fill)


@given(CONTENTS, WRITES)
def test_pages_of_zeros_take_no_room(fills: list[int], writes: dict[int, int]) -> None:
    with_content = [number for number, fill in writes.items() if fill not in (0, fills[number])]
    with scratch() as folder:
        size = make_layer(folder / "layer", filled(fills), writes)
        assert size == (folder / "layer").stat().st_size == PAGE * (1 + len(with_content))


def test_runs_that_are_longer_than_what_is_read_at_once_come_out_whole(tmp_path: Path) -> None:
    parent = filled([1] * 1000)
    writes = {number: 0 if number < 300 else 1 if number == 600 else 2 for number in range(900)}
    make_layer(tmp_path / "layer", parent, writes)
    assert [run for run, _ in read_runs(tmp_path / "layer", len(parent))] == [
        PageRun(0, 300, zero=True),
        PageRun(300, 300, zero=False),
        PageRun(601, 299, zero=False),
    ]
    assert applied(tmp_path / "layer", parent) == written(parent, writes)


def test_a_parent_that_is_too_short_is_an_error_and_no_difference() -> None:
    with pytest.raises(OSError, match="became shorter"):
        found_in(PARENT[: 5 * PAGE], {4: 1, 5: 1})


def test_a_layer_is_not_written_over_another(tmp_path: Path) -> None:
    make_layer(tmp_path / "layer", PARENT, {})
    with pytest.raises(FileExistsError):
        make_layer(tmp_path / "layer", PARENT, {})


def test_the_number_of_pages_applied_counts_zeros_too(tmp_path: Path) -> None:
    make_layer(tmp_path / "layer", PARENT, {0: 2, 1: 0, 5: 0})
    (tmp_path / "flat").write_bytes(PARENT)
    with (tmp_path / "flat").open("r+b") as flat:
        assert apply_layer(tmp_path / "layer", flat.fileno()) == 3


def a_layer(folder: Path) -> bytes:
    """A layer with a run of each kind."""
    make_layer(folder / "layer", PARENT, {1: 2, 2: 0, 7: 3})
    return (folder / "layer").read_bytes()


@given(st.data())
def test_a_layer_cut_short_anywhere_is_damaged(data: st.DataObject) -> None:
    with scratch() as folder:
        whole = a_layer(folder)
        length = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, HEAD_BYTES + 48))
        (folder / "layer").write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            read_runs(folder / "layer", MEMORY_BYTES)


@given(st.binary(min_size=1, max_size=50))
def test_a_layer_with_more_behind_it_is_damaged(more: bytes) -> None:
    with scratch() as folder:
        (folder / "layer").write_bytes(a_layer(folder) + more)
        with pytest.raises(DamagedError, match="should hold"):
            read_runs(folder / "layer", MEMORY_BYTES)


@given(st.integers(0, 8 * (HEAD_BYTES + 3 * RUN_BYTES) - 1))
def test_a_single_wrong_bit_in_header_or_runs_is_found(bit: int) -> None:
    with scratch() as folder:
        damaged = bytearray(a_layer(folder))
        damaged[bit // 8] ^= 1 << bit % 8
        (folder / "layer").write_bytes(damaged)
        with pytest.raises(DamagedError):
            read_runs(folder / "layer", MEMORY_BYTES)


def test_nothing_of_a_damaged_layer_reaches_the_image(tmp_path: Path) -> None:
    whole = a_layer(tmp_path)
    (tmp_path / "layer").write_bytes(whole[:-1])
    (tmp_path / "flat").write_bytes(PARENT)
    with (tmp_path / "flat").open("r+b") as flat, pytest.raises(DamagedError):
        apply_layer(tmp_path / "layer", flat.fileno())
    assert (tmp_path / "flat").read_bytes() == PARENT


def test_a_layer_of_a_larger_memory_is_refused(tmp_path: Path) -> None:
    a_layer(tmp_path)
    with pytest.raises(DamagedError, match=f"of {MEMORY_BYTES} bytes, not of {PAGE}"):
        read_runs(tmp_path / "layer", PAGE)


def test_a_layer_for_other_pages_is_refused(tmp_path: Path) -> None:
    whole = a_layer(tmp_path)
    (tmp_path / "layer").write_bytes(whole[:8] + struct.pack("<I", 2 * PAGE) + whole[12:])
    with pytest.raises(DamagedError, match=f"{PAGE}-byte pages"):
        read_runs(tmp_path / "layer", MEMORY_BYTES)


def test_runs_are_joined_where_they_are_alike_and_apart_where_not(tmp_path: Path) -> None:
    make_layer(tmp_path / "layer", PARENT, {1: 2, 2: 3, 3: 0, 4: 0, 6: 2})
    assert [run for run, _ in read_runs(tmp_path / "layer", MEMORY_BYTES)] == [
        PageRun(1, 2, zero=False),
        PageRun(3, 2, zero=True),
        PageRun(6, 1, zero=False),
    ]
