"""The initramfs holds the guest's code, and changes when and only when something in it does."""

import subprocess
from pathlib import Path

import pytest
from tests.unit.image.conftest import write_files
from tests.unit.image.test_cpio import read

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.initramfs import (
    INIT,
    MODULES,
    PROBE_INIT,
    pack_initramfs,
    pack_probe,
)


@pytest.fixture
def kernel_tree(tmp_path: Path) -> Path:
    modules = {f"lib/modules/6.1/kernel/{name}.ko": "\0depends=\0" for name in MODULES}
    write_files(tmp_path / "kernel", modules)
    return tmp_path / "kernel"


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    path = tmp_path / "busybox"
    path.write_bytes(b"busybox")
    return path


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    files = {"__main__.py": "run()", "deep/er.py": "x = 1", "__pycache__/a.pyc": "stale"}
    write_files(tmp_path / "src/guestd", files)
    return tmp_path / "src/guestd"


def names(archive: bytes) -> list[str]:
    return [entry.name for entry in read(archive)]


def test_guest_packages_lie_where_python_finds_them(
    kernel_tree: Path, busybox: Path, guest: Path
) -> None:
    made = names(pack_initramfs(kernel_tree, busybox, [guest]))
    assert "branchpoint/lib/guestd/__main__.py" in made
    assert "branchpoint/lib/guestd/deep/er.py" in made


def test_byte_code_of_the_host_stays_out(kernel_tree: Path, busybox: Path, guest: Path) -> None:
    made = names(pack_initramfs(kernel_tree, busybox, [guest]))
    assert not [name for name in made if "__pycache__" in name]


def test_every_folder_comes_before_what_is_in_it(
    kernel_tree: Path, busybox: Path, guest: Path
) -> None:
    made = names(pack_initramfs(kernel_tree, busybox, [guest]))
    for index, name in enumerate(made):
        parent = name.rpartition("/")[0]
        assert not parent or parent in made[:index]


def test_dates_of_the_sources_do_not_matter(kernel_tree: Path, busybox: Path, guest: Path) -> None:
    before = pack_initramfs(kernel_tree, busybox, [guest])
    (guest / "__main__.py").touch()
    assert pack_initramfs(kernel_tree, busybox, [guest]) == before


def test_other_guest_code_is_another_archive(kernel_tree: Path, busybox: Path, guest: Path) -> None:
    before = pack_initramfs(kernel_tree, busybox, [guest])
    (guest / "__main__.py").write_text("run(2)")
    assert pack_initramfs(kernel_tree, busybox, [guest]) != before


def test_a_guest_package_that_is_not_there_is_named(kernel_tree: Path, busybox: Path) -> None:
    with pytest.raises(ImageBuildError, match="nowhere"):
        pack_initramfs(kernel_tree, busybox, [Path("/nowhere")])


def test_the_probe_has_neither_modules_nor_guest_code(busybox: Path) -> None:
    made = names(pack_probe(busybox))
    assert "init" in made
    assert not [name for name in made if name.endswith((".ko", ".py"))]


@pytest.mark.parametrize("script", [INIT, PROBE_INIT], ids=lambda path: path.name)
def test_the_first_program_is_a_valid_script(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)
