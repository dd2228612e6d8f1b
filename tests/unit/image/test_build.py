"""An image is there whole or not at all, and is made once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.image.conftest import write_files

from branchpoint_vmruntime.errors import DamagedError, ImageBuildError, StorageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image import build
from branchpoint_vmruntime.image.apt import Deb, PrivateApt
from branchpoint_vmruntime.image.build import (
    ensure_image,
    ensure_initramfs,
    find_image,
    tree_bytes,
)
from branchpoint_vmruntime.image.guest_image import FILES, write_manifest
from branchpoint_vmruntime.image.initramfs import MODULES
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.tools import QemuProgram, Tools

RECIPE = Recipe(wheels=())
TOOLS = Tools(
    qemu=QemuProgram(argv_prefix=("qemu",), version=(7, 2, 0), build="7.2.0", firmware_args=()),
    qemu_img=("qemu-img",),
    mke2fs=("mke2fs",),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home", tmp_path / "run")
    home.ensure()
    return home


def make_image(home: Home) -> Path:
    folder = home.images / RECIPE.digest
    modules = {f"kernel/lib/modules/6.1/{name}.ko": "\0depends=\0" for name in MODULES}
    write_files(folder, dict.fromkeys(FILES, "content") | {"busybox": "box"} | modules)
    write_manifest(folder, RECIPE, {"bash": "5.2"})
    return folder


def no_mirror(_folder: Path, _suite: str) -> PrivateApt:
    raise ImageBuildError("no mirror answers")


def hardly_any_bytes(_folder: Path) -> int:
    return 100 << 20


def test_an_image_that_is_there_is_not_made_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_image(home)
    monkeypatch.setattr(build, "open_apt", no_mirror)
    image = ensure_image(home, RECIPE, TOOLS, SilentProgress())
    assert image.folder == folder
    assert image.manifest.debs == {"bash": "5.2"}


def test_a_build_that_fails_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "open_apt", no_mirror)
    with pytest.raises(ImageBuildError, match="no mirror answers"):
        ensure_image(home, RECIPE, TOOLS, SilentProgress())
    assert [path.name for path in home.images.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_cleared_away(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = home.images / f".{RECIPE.digest}.999999" / "tree"
    stale.mkdir(parents=True)
    (stale / "file").write_text("half")
    stale.chmod(0o500)
    monkeypatch.setattr(build, "open_apt", no_mirror)
    with pytest.raises(ImageBuildError):
        ensure_image(home, RECIPE, TOOLS, SilentProgress())
    assert [path.name for path in home.images.iterdir()] == [".lock"]


def test_a_disk_without_room_is_told_of_before_anything_is_fetched(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "open_apt", no_mirror)
    monkeypatch.setattr(build, "free_bytes", hardly_any_bytes)
    with pytest.raises(StorageError, match="has 100 left"):
        ensure_image(home, RECIPE, TOOLS, SilentProgress())


class NarrowMirror:
    """An apt whose mirror has the everyday packages alone; it need fetch none of them."""

    def resolve(self, packages: Sequence[str]) -> tuple[Deb, ...]:
        """Say of a package beyond them what apt says."""
        if unknown := [name for name in packages if name not in RECIPE.packages]:
            raise ImageBuildError(f"E: Unable to locate package {unknown[0]}")
        return ()


def narrow_mirror(_folder: Path, _suite: str) -> tuple[NarrowMirror, None]:
    return NarrowMirror(), None


def test_a_python_package_that_is_not_there_is_told_before_a_mirror_is_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_found(wanted: Sequence[str], _lock: Sequence[str], _scratch: Path) -> tuple[str, ...]:
        raise ImageBuildError(f"there is no Python package {wanted[0]}")

    monkeypatch.setattr(build, "resolve_wheels", not_found)
    monkeypatch.setattr(build, "open_apt", no_mirror)
    make_image(home)
    with pytest.raises(ImageBuildError, match="no Python package tabulat"):
        ensure_image(home, replace(RECIPE, python=("tabulat",)), TOOLS, SilentProgress())
    assert {path.name for path in home.images.iterdir()} == {".lock", RECIPE.digest}


def test_a_debian_package_that_is_not_there_is_told_by_its_name_and_leaves_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "open_apt", narrow_mirror)
    make_image(home)
    with pytest.raises(ImageBuildError, match="Debian has no package grafviz") as told:
        ensure_image(home, replace(RECIPE, debian=("grafviz",)), TOOLS, SilentProgress())
    assert "apt-cache search" in told.value.hint
    assert {path.name for path in home.images.iterdir()} == {".lock", RECIPE.digest}


def test_what_killed_builds_of_other_images_left_is_cleared_away_too(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.images / ".another.999999").mkdir()
    monkeypatch.setattr(build, "open_apt", no_mirror)
    with pytest.raises(ImageBuildError):
        ensure_image(home, RECIPE, TOOLS, SilentProgress())
    assert [path.name for path in home.images.iterdir()] == [".lock"]


def test_an_image_tells_what_was_asked_for_beyond_the_everyday(home: Home) -> None:
    recipe = replace(RECIPE, python=("tabulate>=0.9",), debian=("graphviz",))
    folder = home.images / recipe.digest
    write_files(folder, dict.fromkeys(FILES, "content"))
    write_manifest(folder, recipe, {"graphviz": "2.42"}, ["tabulate==0.10.0 --hash=sha256:00"])
    found = find_image(home, recipe)
    assert found is not None
    assert (found.manifest.python, found.manifest.debian) == (recipe.python, recipe.debian)
    assert found.manifest.wheels == ("tabulate==0.10.0",)


def test_a_tree_is_measured_in_whole_blocks(tmp_path: Path) -> None:
    write_files(tmp_path / "tree", {"a": "1", "folder/b": "2" * 5000})
    folder_bytes = (tmp_path / "tree" / "folder").stat().st_size
    whole = 4096 + 8192 + -(-folder_bytes // 4096) * 4096
    assert tree_bytes(tmp_path / "tree") == whole + 3 * 256


def test_an_image_without_its_manifest_does_not_count(home: Home) -> None:
    (make_image(home) / "manifest.json").unlink()
    assert find_image(home, RECIPE) is None


def test_a_manifest_that_is_not_one_is_damage(home: Home) -> None:
    (make_image(home) / "manifest.json").write_text("{")
    with pytest.raises(DamagedError, match="is damaged"):
        find_image(home, RECIPE)


def test_the_initramfs_is_named_by_what_is_in_it(home: Home, tmp_path: Path) -> None:
    make_image(home)
    image = ensure_image(home, RECIPE, TOOLS, SilentProgress())
    write_files(tmp_path / "guest", {"__main__.py": "1"})
    one = ensure_initramfs(image, [tmp_path / "guest"])
    again = ensure_initramfs(image, [tmp_path / "guest"])
    write_files(tmp_path / "guest", {"__main__.py": "2"})
    two = ensure_initramfs(image, [tmp_path / "guest"])
    assert one == again
    assert one.digest != two.digest
    assert one.path.exists()
    assert two.path.exists()
