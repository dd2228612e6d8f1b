"""Which bases and guest code a new machine would still use, told from what they were made of."""

import hashlib
import os
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base
from tests.unit.storage.layers import FACTS_HERE, made_layer
from tests.unit.storage.stores import made_image, small_home

from branchpoint_vmruntime.base import base_key
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import ROOT
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.storage import foundations as module
from branchpoint_vmruntime.storage.foundations import Foundations
from branchpoint_vmruntime.store import Layer

NOWHERE = Path()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """One with the image that the facts of test layers name; its guest code is one file."""
    monkeypatch.setattr(module, "pack_initramfs", packed)
    made = small_home(tmp_path)
    image = made.images / FACTS_HERE.image
    image.mkdir()
    (image / "manifest.json").write_text("{}")
    (image / "busybox").write_bytes(b"busybox")
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest" / "code.py").write_text("version = 1")
    return made


def packed(_kernel_tree: Path, _busybox: Path, sources: list[Path]) -> bytes:
    """Guest code is what the files of the packages say."""
    return b"".join(path.read_bytes() for source in sources for path in source.iterdir())


def looking(home: Home, tmp_path: Path, *, qemu: str | None = FACTS_HERE.qemu) -> Foundations:
    return Foundations(home, qemu=qemu, guest_sources=[tmp_path / "guest"])


def digest(tmp_path: Path) -> str:
    return hashlib.sha256((tmp_path / "guest" / "code.py").read_bytes()).hexdigest()


def booted(home: Home, name: str, initramfs: str, kernel: tuple[str, ...] = ()) -> Checkpoint:
    """A base, as a boot with that guest code makes it, and its initramfs."""
    made_layer(home.layers / "base", name)
    foundation = Foundation(
        emulator=Emulator(argv=(), accelerator="tcg"),
        size=MachineSize(memory_mib=FACTS_HERE.memory_mib, vcpus=FACTS_HERE.vcpus),
        kernel=NOWHERE,
        initramfs=NOWHERE,
        initramfs_digest=initramfs,
        root=NOWHERE,
        disk_template=NOWHERE,
        overlay_template=NOWHERE,
        facts=FACTS_HERE,
    )
    if kernel:
        foundation = replace(foundation, kernel_argv=kernel)
    path = home.images / FACTS_HERE.image / f"initramfs-{initramfs[:32]}.cpio"
    path.write_bytes(b"guest code")
    return replace(a_base(name, key=base_key(foundation)), created_at=datetime.now().astimezone())


def test_a_base_that_was_booted_with_this_guest_code_is_usable(home: Home, tmp_path: Path) -> None:
    base = booted(home, "now", digest(tmp_path))
    assert looking(home, tmp_path).usable([base]) == {base.id}


def test_a_base_of_earlier_guest_code_is_not(home: Home, tmp_path: Path) -> None:
    old = replace(booted(home, "old", "0" * 64), created_at=a_base().created_at)
    now = booted(home, "now", digest(tmp_path))
    assert looking(home, tmp_path).usable([old, now]) == {now.id}


def test_of_bases_made_in_the_same_way_the_newest_is(home: Home, tmp_path: Path) -> None:
    one = booted(home, "one", digest(tmp_path))
    other = replace(booted(home, "other", digest(tmp_path)), key=one.key)
    assert looking(home, tmp_path).usable([one, other]) == {other.id}


def test_a_base_of_another_kernel_counts_as_long_as_it_is_younger_than_the_guest_code(
    home: Home, tmp_path: Path
) -> None:
    bash = booted(home, "bash", digest(tmp_path), kernel=("bash", "{connection_file}"))
    assert looking(home, tmp_path).usable([bash]) == {bash.id}
    old = replace(bash, created_at=a_base().created_at)
    assert looking(home, tmp_path).usable([old]) == set()


def test_a_base_of_another_qemu_or_without_its_image_or_its_files_is_not(
    home: Home, tmp_path: Path
) -> None:
    base = booted(home, "now", digest(tmp_path))
    assert looking(home, tmp_path, qemu="QEMU 11").usable([base]) == set()
    (home.images / FACTS_HERE.image / "manifest.json").unlink()
    assert looking(home, tmp_path).usable([base]) == set()
    assert looking(home, tmp_path).usable([a_base("missing")]) == set()


def test_a_base_of_an_image_that_was_made_anew_and_otherwise_is_not(
    home: Home, tmp_path: Path
) -> None:
    here = made_image(home).bound_to
    base = booted(home, "now", digest(tmp_path))
    layer = Layer(home.layers / "base" / "now")
    layer.note_image(here)
    assert looking(home, tmp_path).usable([base]) == {base.id}
    layer.note_image({**here, ROOT: "0" * 64})
    assert looking(home, tmp_path).usable([base]) == set()


def test_without_qemu_no_base_is_called_old(home: Home, tmp_path: Path) -> None:
    base = booted(home, "old", "0" * 64)
    assert looking(home, tmp_path, qemu=None).usable([base]) == {base.id}


def test_guest_code_of_earlier_times_goes_but_not_the_present_one_nor_the_youngest(
    home: Home, tmp_path: Path
) -> None:
    image = home.images / FACTS_HERE.image
    then = time.time() - 7200
    for name in ("1" * 64, "2" * 64, digest(tmp_path)):
        booted(home, name[:8], name)
        os.utime(image / f"initramfs-{name[:32]}.cpio", (then, then))
    (image / f"initramfs-{'3' * 32}.cpio").write_bytes(b"just made")
    found = looking(home, tmp_path).old_initramfs(set())
    assert [each.name for each in found] == [
        f"initramfs-{'1' * 32}.cpio",
        f"initramfs-{'2' * 32}.cpio",
    ]
    assert list(looking(home, tmp_path).old_initramfs({image})) == []
