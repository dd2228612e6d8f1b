"""A full disk during a checkpoint: a clear error, an unharmed session, a consistent store."""

import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support.homes import lend_base, lend_images
from tests.support.live_kernel import Cell, LiveKernel, command_line, live_kernel, wait_until
from tests.support.small_disk import Kind, NotMountedError, SmallDisk, small_disk

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def disk(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[SmallDisk]:
    """A small disk of the kind that homes are on."""
    yield from furnished_disk(home, tmp_path_factory.mktemp("small"), "ext4")


@pytest.fixture
def ram_disk(home: Home, tmp_path: Path) -> Generator[SmallDisk]:
    """A small disk in memory."""
    yield from furnished_disk(home, tmp_path, "tmpfs")


def furnished_disk(home: Home, folder: Path, kind: Kind) -> Generator[SmallDisk]:
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(folder, kind))
        except NotMountedError as error:
            pytest.skip(f"a small disk cannot be mounted here: {error}")
        lend_images(home, disk.home)
        lend_base(home, disk.home)
        yield disk


@contextmanager
def saved_kernel(disk: SmallDisk, session: str, cwd: Path) -> Generator[LiveKernel]:
    """A kernel on a small disk with a checkpoint `saved`; afterwards there is room again."""
    with live_kernel(session, cwd=cwd, BRANCHPOINT_HOME=str(disk.home.root)) as started:
        started.run("x = 'before'\n%checkpoint saved\nx = 'after'")
        assert wait_until(lambda: len(disk.images()) == 1), "the image of `saved` was not made"
        (image,) = map(str, disk.images())
        # It sets room aside for its disk, which may not come to pass on a disk that is filled then.
        assert wait_until(lambda: stands_by(started, image)), "no machine stands by for `saved`"
        yield started
        disk.free()
    # The images of a session that has ended are only a cache.
    shutil.rmtree(disk.home.flat)


def stands_by(kernel: LiveKernel, image: str) -> bool:
    return any(image.encode() in command_line(pid) for pid in kernel.processes)


@pytest.fixture
def kernel(
    disk: SmallDisk, request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[LiveKernel]:
    with saved_kernel(disk, request.node.name, tmp_path) as started:
        yield started


def assert_names_the_disk(cell: Cell) -> None:
    assert cell.status == "error"
    assert "Traceback" not in cell.text
    assert "disk" in cell.text
    assert "free" in cell.text


def assert_all_restore(kernel: LiveKernel) -> None:
    """Every checkpoint that is listed can be gone back to."""
    for point in kernel.run("%checkpoints").record["checkpoints"]:
        kernel.run(f"%rollback {point['id']} --no-safety")
        assert kernel.value("1 + 1") == "2"


def test_a_full_disk_fails_a_checkpoint_and_nothing_else(
    disk: SmallDisk, kernel: LiveKernel
) -> None:
    disk.fill()
    assert_names_the_disk(kernel.run("%checkpoint never", expect="error"))
    assert kernel.value("x") == "after"
    assert "never" not in kernel.run("%checkpoints").text
    assert disk.half_made() == []


def test_the_same_checkpoint_works_once_there_is_space(disk: SmallDisk, kernel: LiveKernel) -> None:
    disk.fill()
    kernel.run("%checkpoint later", expect="error")
    disk.free()
    kernel.run("x = 'later'\n%checkpoint later\nx = 'lost'")
    kernel.run("%rollback later --no-safety")
    assert kernel.value("x") == "later"
    assert_all_restore(kernel)


@pytest.mark.parametrize("free_mib", [1, 18, 30, 60, 90])
def test_wherever_space_runs_out_the_session_is_unharmed_and_the_store_consistent(
    disk: SmallDisk, kernel: LiveKernel, free_mib: int
) -> None:
    kernel.run("import os\nballast = os.urandom(40 << 20)\nopen('f', 'wb').write(ballast);")
    disk.fill(but_mib=free_mib)
    cell = kernel.finish(kernel.start("%checkpoint perhaps"))
    assert kernel.value("x, len(ballast)") == f"after {40 << 20}"
    disk.free()
    listed = "perhaps" in kernel.run("%checkpoints").text
    assert listed == (cell.status == "ok")
    if not listed:
        assert_names_the_disk(cell)
    assert disk.half_made() == []
    assert_all_restore(kernel)
    kernel.run("%rollback saved --no-safety")
    assert kernel.value("x") == "before"


def test_a_rollback_on_a_full_disk_loses_at_most_what_was_left(
    disk: SmallDisk, kernel: LiveKernel
) -> None:
    """Going back must work above all; what is left behind can only be saved if there is room."""
    kernel.run("%rollback saved --no-safety\nx = 'after'")
    disk.fill(but_mib=1)
    cell = kernel.finish(kernel.start("%rollback saved"))
    if cell.status == "ok":
        assert kernel.value("x") == "before"
        assert "not" in cell.text
    else:
        assert_names_the_disk(cell)
        assert kernel.value("x") == "after"


def test_a_fork_on_a_full_disk_is_refused_and_the_source_runs_on(
    disk: SmallDisk, kernel: LiveKernel
) -> None:
    disk.fill()
    assert_names_the_disk(kernel.run("%fork 2", expect="error"))
    assert kernel.value("x") == "after"
    assert len(kernel.machines) == 1
    disk.free()
    kernel.run("%fork 2 --names a,b")
    assert kernel.values("x", ["a", "b"]) == {"a": "after", "b": "after"}


def test_a_full_disk_in_memory_fails_a_checkpoint_and_nothing_else(
    ram_disk: SmallDisk, tmp_path: Path
) -> None:
    with saved_kernel(ram_disk, "ram", tmp_path) as kernel:
        # Not to the brim: the guest's first use of a page takes one of the disk's, if that is RAM.
        ram_disk.fill(but_mib=12)
        assert_names_the_disk(kernel.run("%checkpoint never", expect="error"))
        assert kernel.value("x") == "after"
        ram_disk.free()
        kernel.run("%checkpoint never")
        assert_all_restore(kernel)


def test_a_guest_that_finds_the_disk_full_waits_and_goes_on_once_there_is_space(
    disk: SmallDisk, kernel: LiveKernel
) -> None:
    disk.fill(but_mib=4)
    code = """
import hashlib, os
written = os.urandom(32 << 20)
with open("big", "wb") as file:
    file.write(written)
    os.fsync(file.fileno())
open("/proc/sys/vm/drop_caches", "w").write("3")
with open("big", "rb") as file:
    print(hashlib.sha256(file.read()).digest() == hashlib.sha256(written).digest())
"""
    sent = kernel.start(code)
    assert wait_until(lambda: disk.free_bytes() < 1 << 20), "the guest did not fill the disk"
    disk.free()
    assert kernel.finish(sent).text.strip() == "True"
    kernel.run("%checkpoint later")
    assert_all_restore(kernel)
