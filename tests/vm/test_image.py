"""The image is the same bytes whenever it is built, and the guest in it is a small real machine."""

from pathlib import Path

import pytest

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.build import ensure_image, find_image
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.tools import find_tools

pytestmark = pytest.mark.vm


class HeardProgress(SilentProgress):
    """Remembers how far each step was heard to be."""

    def __init__(self) -> None:
        self.heard: list[float] = []

    def advance(self, fraction: float) -> None:
        """Remember it."""
        self.heard.append(fraction)


def test_a_second_build_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    installed = find_image(Home.default(), Recipe.default())
    if installed is None:
        pytest.skip("no image was made on this host: branchpoint setup")
    other = Home(tmp_path / "home", tmp_path / "run")
    other.ensure()
    progress = HeardProgress()
    built = ensure_image(other, Recipe.default(), find_tools(Home.default()), progress)
    if built.manifest.debs != installed.manifest.debs:
        pytest.skip("the mirror has newer packages than the installed image was made of")
    assert built.manifest.sha256 == installed.manifest.sha256
    assert all(0 <= fraction <= 1 for fraction in progress.heard)
    # The next image need not fetch them again.
    [kept] = other.cache.iterdir()
    assert [path.name for path in kept.iterdir()] == ["archives"]
    assert {path.name for path in other.images.iterdir()} == {".lock", built.digest}
