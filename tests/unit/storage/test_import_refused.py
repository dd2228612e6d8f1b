"""A checkpoint that cannot be had on this host: it is said why, and nothing of it is left."""

import errno
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.storage.moving import (
    FACTS,
    SECOND,
    empty_home,
    files_in,
    furnished,
    home_with_image,
    same_facts,
    take_in,
)

from branchpoint_vmruntime.errors import (
    DamagedError,
    HostError,
    IncompatibleError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import ROOT, GuestImage
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.leaks import Leak, sweep
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage import importing, layer_intake
from branchpoint_vmruntime.storage.digests import DIGESTS, check
from branchpoint_vmruntime.store import Layer, MachineFacts


@pytest.mark.parametrize("name", ["", "\x1b[31m", "x" * 2000])
def test_a_name_that_cannot_be_one_is_refused(file: Path, here: Home, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        take_in(here, file, name=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("qemu", "QEMU 7.2.0 (other)"),
        ("accelerator", "kvm"),
        ("cpu", "host"),
        ("protocol", 5),
        ("tsc_khz", 3_000_000),
    ],
)
def test_on_another_host_the_field_that_differs_is_named_and_nothing_is_left(
    file: Path, here: Home, field: str, value: object
) -> None:
    before = files_in(here)

    def facts(home: Home, image: GuestImage, saved: MachineFacts) -> MachineFacts:
        return replace(same_facts(home, image, saved), **{field: value})

    with pytest.raises(IncompatibleError) as caught:
        # The TSC counts where machines are emulated.
        take_in(here, file, facts=facts)
    assert f"{field} was {getattr(FACTS, field)} and is {value}" in str(caught.value)
    assert files_in(here) == before


def test_the_same_recipe_of_other_packages_is_another_image(file: Path, tmp_path: Path) -> None:
    here = home_with_image(tmp_path / "home", {ROOT: b"a root with an update"})
    with pytest.raises(IncompatibleError, match=f"{ROOT} differs"):
        take_in(here, file)
    assert not list(here.layers.iterdir())


def test_a_host_without_the_image_says_how_it_can_be_had(file: Path, tmp_path: Path) -> None:
    with pytest.raises(IncompatibleError, match="image abababababab") as caught:
        take_in(empty_home(tmp_path / "home"), file)
    assert "--with-image" in caught.value.hint


def test_a_checkpoint_that_is_here_and_is_another_is_not_overwritten(
    file: Path, tmp_path: Path
) -> None:
    other = furnished(tmp_path / "home")
    devices = other.layer(SECOND).devices
    devices.write_bytes(b"something else")
    (other.layer(SECOND).folder / DIGESTS).unlink()
    before = files_in(other.home)
    with pytest.raises(IncompatibleError, match=f"already a checkpoint {SECOND}.*devices"):
        take_in(other.home, file)
    assert devices.read_bytes() == b"something else"
    assert files_in(other.home) == before


def test_a_journal_that_cannot_be_written_leaves_nothing(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(here)

    def refuse(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Journal, "add_lineage", refuse)
    with pytest.raises(StorageError):
        take_in(here, file)
    assert files_in(here) - {"layers/base"} == before


def test_a_disk_that_fails_at_any_write_leaves_nothing(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(here)
    writes = 0
    real = os.pwrite

    def failing(fd: int, data: memoryview, offset: int) -> int:
        nonlocal writes
        writes += 1
        if writes == 3:
            raise OSError(28, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(layer_intake.os, "pwrite", failing)
    with pytest.raises(StorageError, match="full"):
        take_in(here, file)
    assert files_in(here) - {"layers/base"} == before


def test_a_disk_without_the_room_is_told_before_anything_is_written(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly_full(_folder: Path) -> int:
        return 1000

    monkeypatch.setattr(importing, "free_bytes", nearly_full)
    with pytest.raises(StorageError, match="needs"):
        take_in(here, file)
    assert not list(here.layers.iterdir())


def test_what_a_killed_import_left_is_swept_and_what_is_on_record_stays(
    file: Path, here: Home
) -> None:
    made = take_in(here, file)
    kept = files_in(here)
    left = [here.layers / "0123456789ab" / "f00d0000.part", here.layers / "base" / "dead00000000"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "memory").write_bytes(b"half")
    swept = sweep(here)
    assert {leak.path.name for leak in swept if leak.path} == {"0123456789ab", "dead00000000"}
    assert files_in(here) == kept
    assert check(Layer(here.layers / made.session.id / SECOND)) == []


def test_an_import_that_goes_on_is_not_swept(file: Path, here: Home) -> None:
    swept: list[Leak] = []

    class Sweeping(SilentProgress):
        def advance(self, fraction: float) -> None:
            swept.extend(sweep(here))

    importing.import_file(here, file, progress=Sweeping(), facts=same_facts)
    assert swept == []


class Failing(io.FileIO):
    """A file on a disk that fails from somewhere on."""

    good_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """As far as it can be read."""
        if self.tell() >= self.good_bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_file_that_its_disk_does_not_give_is_named_and_nothing_is_left(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    def opened(path: Path) -> Failing:
        failing = Failing(path)
        failing.good_bytes = round(share * (path.stat().st_size - 32))
        return failing

    before = files_in(here)
    monkeypatch.setattr(importing, "_open", opened)
    with pytest.raises(DamagedError) as refused:
        take_in(here, file)
    assert str(refused.value) == f"{str(file)!r}: it cannot be read: Input/output error"
    assert "nothing was imported" in refused.value.hint
    assert files_in(here) - {"layers/base"} == before


def test_a_home_that_its_disk_does_not_take_is_named(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(layer_intake.LayerIntake, "take", fails)
    with pytest.raises(HostError) as refused:
        take_in(here, file)
    assert str(refused.value) == f"{str(here.root)!r} cannot be used: Input/output error"


def test_what_is_not_a_file_is_refused_in_words(here: Home, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("/dev/null")):
        with pytest.raises(UsageError, match=r"regular|cannot be read"):
            take_in(here, path)
