"""The pages a process has written of a file it maps privately: each of them, and each once."""

import mmap
import os
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.memory.memories import runs_of

from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.memory import dirty
from branchpoint_vmruntime.memory.dirty import (
    PAGE,
    PageBuffer,
    Run,
    dirty_runs,
    memory_use,
    share_out,
    total_size,
)

# Runs enough to fill the buffers that the kernel and we scan with, and not to fill them.
PAGES = 24_000


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(PAGES * PAGE)
    return path


@pytest.mark.parametrize("step", [1, 2, 7, 9, 11, 1000], ids="every {}th page".format)
def test_each_written_page_is_found_once(image: Path, step: int) -> None:
    written = range(0, PAGES, step)
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        for page in written:
            memory[page * PAGE] = 1
        runs = dirty_runs(os.getpid(), image)
    found = [run.offset // PAGE + place for run in runs for place in range(run.size // PAGE)]
    assert found == list(written)


def test_pages_only_read_are_not_found(image: Path) -> None:
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        assert sum(memory[::PAGE]) == 0
        assert dirty_runs(os.getpid(), image) == []


def fill(page: int) -> bytes:
    """A page's bytes, by its number."""
    return bytes([page % 251]) * PAGE


def test_what_is_copied_is_what_was_written(image: Path) -> None:
    written = range(0, PAGES, 97)
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        for page in written:
            memory[page * PAGE : (page + 1) * PAGE] = fill(page)
        runs = dirty_runs(os.getpid(), image)
        size = total_size(runs)
        buffer = PageBuffer(size)
        buffer.copy_from(os.getpid(), runs)
    assert bytes(buffer.view(size)) == b"".join(map(fill, written))


def without_the_scan(*_: object) -> None:
    """A kernel that has no PAGEMAP_SCAN."""
    raise OSError(25, "Inappropriate ioctl for device")


@pytest.mark.parametrize("step", [1, 2, 9, 1000], ids="every {}th page".format)
def test_a_kernel_without_the_scan_gives_the_same_answer(
    image: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        for page in range(5, PAGES, step):
            memory[page * PAGE] = 1
        scanned = dirty_runs(os.getpid(), image)
        monkeypatch.setattr(dirty, "_scan", without_the_scan)
        assert dirty_runs(os.getpid(), image) == scanned


def test_neighbouring_pages_are_one_run_with_its_place_in_image_and_address_space(
    image: Path,
) -> None:
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        memory[10 * PAGE : 13 * PAGE] = b"\1" * 3 * PAGE
        [run] = dirty_runs(os.getpid(), image)
        assert (run.offset, run.size) == (10 * PAGE, 3 * PAGE)
        buffer = PageBuffer(run.size)
        buffer.copy_from(os.getpid(), [run])
    assert bytes(buffer.view(run.size)) == b"\1" * 3 * PAGE


def test_an_image_named_through_a_link_is_found(image: Path) -> None:
    link = image.with_name("link")
    link.symlink_to(image)
    with link.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        memory[0] = 1
        assert [run.offset for run in dirty_runs(os.getpid(), link)] == [0]


@pytest.mark.parametrize("name", ["with space", "line\nend", "(deleted)", "a:b,c=d"])
def test_an_image_of_any_name_is_found(image: Path, name: str) -> None:
    odd = image.rename(image.with_name(name))
    with odd.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        memory[0] = 1
        assert len(dirty_runs(os.getpid(), odd)) == 1


def test_a_process_that_does_not_map_the_image_is_an_error_and_not_clean(image: Path) -> None:
    with pytest.raises(MachineError, match="does not map"):
        dirty_runs(os.getpid(), image)


def test_a_process_that_is_gone_is_an_error_of_the_machine(image: Path) -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    with pytest.raises(MachineError, match="has ended"):
        dirty_runs(child, image)


@pytest.mark.parametrize("reaped", [False, True])
@pytest.mark.parametrize("scan", [vars(dirty)["_scan"], without_the_scan], ids=["scan", "table"])
def test_a_process_that_ends_once_its_mappings_are_known_is_no_process_that_wrote_nothing(
    image: Path,
    reaped: bool,  # noqa: FBT001 (a parameter of the test)
    scan: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    mapping = vars(dirty)["_Mapping"](1 << 30, (1 << 30) + PAGES * PAGE, 0)

    def ends_then(*_: object) -> list[Any]:
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        if reaped:
            os.waitpid(child, 0)
        return [mapping]

    monkeypatch.setattr(dirty, "_mappings", ends_then)
    monkeypatch.setattr(dirty, "_scan", scan)
    with pytest.raises(MachineError, match="has ended"):
        dirty_runs(child, image)
    if not reaped:
        os.waitpid(child, 0)


def test_memory_of_a_process_that_is_gone_cannot_be_copied(image: Path) -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    with pytest.raises(OSError, match="reading guest memory"):
        PageBuffer(PAGE).copy_from(child, [Run(PAGE, 0, PAGE)])


def test_parts_copied_apart_make_up_the_whole(image: Path) -> None:
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        written = range(0, PAGES, 211)
        for page in written:
            memory[page * PAGE : (page + 1) * PAGE] = fill(page)
        runs = dirty_runs(os.getpid(), image)
        buffer = PageBuffer(total_size(runs))
        for start, part in share_out(runs, 4):
            assert buffer.copy_from(os.getpid(), part, start=start) == total_size(part)
    assert bytes(buffer.view(total_size(runs))) == b"".join(map(fill, written))


RUNS = st.sets(st.integers(0, 60)).map(runs_of)


def pages_of(runs: list[Run]) -> list[tuple[int, int]]:
    """Every page's address and offset, in order."""
    return [
        (run.address + start, run.offset + start)
        for run in runs
        for start in range(0, run.size, PAGE)
    ]


@given(RUNS, st.integers(1, 8))
def test_shares_cover_each_page_once_and_in_order(runs: list[Run], shares: int) -> None:
    parts = share_out(runs, shares)
    assert [page for _, part in parts for page in pages_of(part)] == pages_of(runs)


@given(RUNS, st.integers(1, 8))
def test_each_share_starts_where_the_one_before_it_ends(runs: list[Run], shares: int) -> None:
    parts = share_out(runs, shares)
    assert parts[0][0] == 0
    for (start, part), (after, _) in pairwise(parts):
        assert start + total_size(part) == after


@given(RUNS, st.integers(1, 8))
def test_shares_are_no_more_than_asked_for_and_about_equal(runs: list[Run], shares: int) -> None:
    sizes = [total_size(part) for _, part in share_out(runs, shares)]
    assert len(sizes) <= shares
    assert max(sizes) <= total_size(runs) / shares + PAGE


def test_memory_written_counts_as_a_process_s_own() -> None:
    before, _ = memory_use(os.getpid())
    with mmap.mmap(-1, 64 << 20) as memory:
        memory.write(b"\1" * len(memory))
        during, _ = memory_use(os.getpid())
    assert during - before > 32 << 20
