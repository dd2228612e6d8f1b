"""Code inside a machine reaches the notebook's folder on the host, and nothing else."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_streams import FakeChannel
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.manifest import FILE_NAME
from branchpoint_vmruntime.outside.transfer import MANIFEST, Transfers, confined

NAMES = ("a", "b", "in", "out", "up", "loop", "..", ".", ".git", "", "a\0b", "日本", MANIFEST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook's folder with links of every kind, and a neighbour whose name begins like it."""
    made = tmp_path_factory.mktemp("host") / "notebook"
    (made / "a" / "b").mkdir(parents=True)
    (made.parent / "notebook-of-another").mkdir()
    (made / "in").symlink_to("a")
    (made / "out").symlink_to("/etc")
    (made / "a" / "up").symlink_to("../..")
    (made / "loop").symlink_to("loop")
    return made


@given(
    start=st.sampled_from(["", "/", "../notebook-of-another/", "{folder}/"]),
    names=st.lists(st.sampled_from(NAMES) | st.text(max_size=3), max_size=6),
)
def test_no_path_leads_out_of_the_folder(folder: Path, start: str, names: list[str]) -> None:
    path = start.format(folder=folder) + "/".join(names)
    try:
        place = confined(Path(path), folder)
    except UsageError:
        return
    assert os.path.commonpath([os.path.realpath(place), folder.resolve()]) == str(folder.resolve())
    assert not any(part.startswith(".") for part in place.relative_to(folder.resolve()).parts)


@pytest.mark.parametrize("path", ["a/b/new", "in/new", "{folder}/a", "a/../in", "."])
def test_what_is_in_the_folder_may_be_reached(folder: Path, path: str) -> None:
    place = confined(Path(path.format(folder=folder)), folder)
    assert place == Path(os.path.realpath(folder / path.format(folder=folder)))


@pytest.mark.parametrize(
    "path", ["..", "../notebook-of-another/x", "/etc/passwd", "out/passwd", "a/up/x", "in/up/x"]
)
def test_what_is_outside_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError, match="outside the notebook's folder"):
        confined(Path(path), folder)


@pytest.mark.parametrize("path", [".git/config", "a/.env", MANIFEST, f"a/../{MANIFEST}"])
def test_what_the_host_acts_upon_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError, match="may not touch"):
        confined(Path(path), folder)


def test_the_manifest_is_the_one_that_is_meant() -> None:
    assert MANIFEST == FILE_NAME


@in_a_loop
async def test_a_name_that_comes_from_inside_is_confined_as_well(folder: Path) -> None:
    with pytest.raises(UsageError, match="may not touch"):
        await Transfers().get(FakeChannel(), "/root/.envrc", folder, within=folder)


@in_a_loop
async def test_a_source_outside_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="outside"):
        await Transfers().put(FakeChannel(), Path("out/passwd"), within=folder)
