"""The pages a process has written of a file it maps privately: each of them, and each once."""

import mmap
import os
from pathlib import Path

import pytest

from branchpoint_vmruntime.memory.dirty import PAGE, PageBuffer, dirty_runs, total_size

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
