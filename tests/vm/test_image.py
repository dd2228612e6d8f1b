"""The image is the same bytes whenever it is built, and the guest in it is a small real machine."""

import shutil
from pathlib import Path

import pytest

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.build import ensure_image
from branchpoint_vmruntime.image.guest_image import GuestImage, find_image
from branchpoint_vmruntime.image.progress import Progress, SilentProgress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.tools import find_tools

# Two builds at the most, and a busy host takes minutes for each.
pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]


class HeardProgress(SilentProgress):
    """Remembers how far each step was heard to be."""

    def __init__(self) -> None:
        self.heard: list[float] = []

    def advance(self, fraction: float) -> None:
        """Remember it."""
        self.heard.append(fraction)


def build(folder: Path, progress: Progress) -> GuestImage:
    """The image, in a home of its own there."""
    home = Home(folder / "home", folder / "run")
    home.ensure()
    return ensure_image(home, Recipe.default(), find_tools(Home.default()), progress)


def test_a_second_build_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    installed = find_image(Home.default(), Recipe.default())
    if installed is None:
        pytest.skip("no image was made on this host: branchpoint setup")
    progress = HeardProgress()
    first = build(tmp_path / "one", progress)
    home = Home(tmp_path / "one" / "home", tmp_path / "one" / "run")
    assert all(0 <= fraction <= 1 for fraction in progress.heard)
    # The next image need not fetch them again.
    [kept] = home.cache.iterdir()
    assert [path.name for path in kept.iterdir()] == ["archives"]
    assert {path.name for path in home.images.iterdir()} == {".lock", first.digest}
    if first.manifest.sha256 == installed.manifest.sha256:
        return
    # The host's tools or its mirror may have changed since; between two builds of now neither has.
    shutil.rmtree(first.folder)
    shutil.copytree(home.cache, tmp_path / "other" / "home" / "cache")
    second = build(tmp_path / "other", SilentProgress())
    if second.manifest.debs != first.manifest.debs:
        pytest.skip("the mirror has had newer packages in the meantime")
    assert second.manifest.sha256 == first.manifest.sha256
