"""The packages of a manifest come to wheels beside the locked ones, or to an error naming them."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.packages import Index
from tests.support.web_files import web_files

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.resolving import explained_apt, explained_fetch, resolve_wheels

LOCK = ("small==1.0 --hash=sha256:00",)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for at loopback is asked for there."""
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The index that the host's pip asks has two packages."""
    packages = Index(tmp_path / "files" / "simple")
    packages.add("small", "text = 'here'")
    packages.add("other", "text = 'there'")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with web_files(tmp_path / "files") as port:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple/")
        yield


@pytest.mark.usefixtures("index")
def test_what_is_wanted_is_pinned_and_hashed_and_what_is_locked_is_left_out(tmp_path: Path) -> None:
    [line] = resolve_wheels(["other>=1", "small"], LOCK, tmp_path)
    requirement, _, digest = line.partition(" --hash=sha256:")
    assert requirement == "other==1.0"
    assert len(digest) == 64


@pytest.mark.usefixtures("index")
def test_a_package_that_no_index_has_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildError, match="no Python package nowhere-to-be-found"):
        resolve_wheels(["nowhere-to-be-found"], LOCK, tmp_path)


@pytest.mark.usefixtures("index")
def test_what_every_image_has_cannot_be_had_at_another_version(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildError, match="small") as refused:
        resolve_wheels(["small>=2"], LOCK, tmp_path)
    assert refused.value.hint


def test_an_index_that_does_not_answer_is_not_taken_for_a_wrong_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ImageBuildError, match="does not answer"):
        resolve_wheels(["other"], LOCK, tmp_path)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("E: Unable to locate package grafviz", "Debian has no package grafviz"),
        ("E: Package 'old' has no installation candidate", "Debian has no package old"),
        ("E: Couldn't find any package by regex 'g.x'", "Debian has no package g.x"),
        ("No space left on device", "the disk is full"),
        ("something else", "something else"),
    ],
)
def test_what_apt_says_is_told_in_words_with_the_package(said: str, told: str) -> None:
    assert str(explained_apt(ImageBuildError(said))).startswith(told)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("NewConnectionError: refused; No matching distribution found for a", "the index"),
        ("OSError: No space left on device", "the disk is full"),
        ("No matching distribution found for a", "No matching distribution"),
    ],
)
def test_a_locked_wheel_that_cannot_be_fetched_is_not_taken_for_a_wrong_name(
    said: str, told: str
) -> None:
    assert str(explained_fetch(ImageBuildError(said))).startswith(told)
