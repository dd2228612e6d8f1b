"""What code in a machine may not learn, replace or leave behind by copying files."""

import os
import shutil
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.kernel.test_copying import Copies, copies

from branchpoint_guest import placing
from branchpoint_vmruntime.errors import BranchpointError, TransferError, UsageError
from branchpoint_vmruntime.outside import transfer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "HOME", tmp_path / "there")


async def said(copy: Copies, line: str) -> str:
    """What code in a machine is told that asks for this in vain."""
    with pytest.raises(BranchpointError) as caught:
        await copy(line, inside="main")
    return str(caught.value)


@pytest.mark.parametrize("place", ["../beyond/{}*", "{above}/beyond/{}*", "link/{}*", "../**/{}*"])
def test_a_pattern_does_not_tell_what_is_outside_the_folder(tmp_path: Path, place: str) -> None:
    @in_a_loop
    async def told_alike() -> None:
        async with copies(tmp_path) as copy:
            (tmp_path / "beyond").mkdir()
            (tmp_path / "beyond" / "there").touch()
            (copy.here / "link").symlink_to(tmp_path / "beyond")
            pattern = place.replace("{above}", str(tmp_path))
            one = await said(copy, f"%put {pattern.format('ther')}")
            other = await said(copy, f"%put {pattern.format('zzzz')}")
            assert one.replace("ther", "zzzz") == other

    told_alike()


@pytest.mark.parametrize("name", ["~root", "~nobody-of-that-name"])
def test_nobody_in_a_machine_learns_who_has_a_home_on_the_host(tmp_path: Path, name: str) -> None:
    @in_a_loop
    async def told() -> None:
        async with copies(tmp_path) as copy:
            assert "there is no file" in await said(copy, f"%put {name}")

    told()


def test_a_pattern_leaves_out_what_a_link_leads_to_outside(tmp_path: Path) -> None:
    @in_a_loop
    async def left_out() -> None:
        async with copies(tmp_path) as copy:
            (tmp_path / "beyond").mkdir()
            (tmp_path / "beyond" / "a.csv").touch()
            (copy.here / "link").symlink_to(tmp_path / "beyond")
            assert "no file is named like" in await said(copy, "%put */a.csv")
            (copy.here / "in").mkdir()
            (copy.here / "in" / "a.csv").write_text("mine")
            await copy("%put */a.csv", inside="main")
            assert (copy.there / "a.csv").read_text() == "mine"

    left_out()


def test_a_pattern_of_code_in_a_machine_goes_down_but_once(tmp_path: Path) -> None:
    @in_a_loop
    async def refused() -> None:
        async with copies(tmp_path) as copy:
            assert "more than one **" in await said(copy, "%put **/**/**/x")

    refused()


@pytest.mark.parametrize("name", ["json.py", "numpy.so", "x.pyc", "site.pth"])
def test_code_in_a_machine_brings_out_nothing_that_python_would_run(
    tmp_path: Path, name: str
) -> None:
    @in_a_loop
    async def refused() -> None:
        async with copies(tmp_path) as copy:
            (copy.there / name).write_text("import os")
            assert "the host might run it" in await said(copy, f"%get {name}")
            assert list(copy.here.iterdir()) == []
            await copy(f"%get {name}")
            assert (copy.here / name).exists()

    refused()


def test_code_in_a_machine_does_not_replace_what_has_been_changed_since(tmp_path: Path) -> None:
    @in_a_loop
    async def kept() -> None:
        async with copies(tmp_path) as copy:
            (copy.there / "plot.png").write_text("one")
            await copy("%get plot.png", inside="main")
            (copy.here / "plot.png").write_text("what the user made of it")
            assert "does not replace" in await said(copy, "%get plot.png")
            assert (copy.here / "plot.png").read_text() == "what the user made of it"

    kept()


def test_code_in_a_machine_replaces_nothing_that_is_made_while_it_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_room = transfer._require_room  # pyright: ignore[reportPrivateUsage]

    def slow(folder: Path, size: int, *, spare: int) -> None:
        require_room(folder, size, spare=spare)
        (folder / "plot.png").write_text("the user's")

    @in_a_loop
    async def kept() -> None:
        async with copies(tmp_path) as copy:
            monkeypatch.setattr(transfer, "_require_room", slow)
            (copy.there / "plot.png").write_text("the machine's")
            with pytest.raises(TransferError, match="has changed meanwhile"):
                await copy("%get plot.png", inside="main")
            assert (copy.here / "plot.png").read_text() == "the user's"

    kept()


def test_code_in_a_machine_does_not_fill_the_disk_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)

    def nearly_full(_path: Path) -> object:
        return usage._replace(free=1 << 20)

    @in_a_loop
    async def refused() -> None:
        async with copies(tmp_path) as copy:
            (copy.there / "a.bin").write_bytes(os.urandom(1000))
            monkeypatch.setattr(transfer.shutil, "disk_usage", nearly_full)
            assert "no room" in await said(copy, "%get a.bin")
            await copy("%get a.bin")

    refused()


def test_a_user_may_still_name_what_is_anywhere(tmp_path: Path) -> None:
    @in_a_loop
    async def found() -> None:
        async with copies(tmp_path) as copy:
            (tmp_path / "beyond").mkdir()
            (tmp_path / "beyond" / "there.csv").write_text("x")
            await copy(f"%put {tmp_path}/beyond/*.csv")
            assert (copy.there / "there.csv").read_text() == "x"
            with pytest.raises(UsageError):
                await copy(f"%put {tmp_path}/beyond/*.txt")

    found()
