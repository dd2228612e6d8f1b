"""What a checkpoint is made of must be there, as it was: else no machine is made of it."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_base, a_checkpoint
from tests.unit.runtime.studio import ORDER
from tests.unit.storage.layers import FACTS_HERE, made_layer
from tests.unit.storage.stores import MEMORY_BYTES, memory_layer

from branchpoint_vmruntime.branch import Live
from branchpoint_vmruntime.capture import Capture
from branchpoint_vmruntime.checkpoint import Draft
from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    HostError,
    IncompatibleError,
    StorageError,
)
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.image.guest_image import DISK, KERNEL, ROOT
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.memory.flat import FlatImages
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.store import Layer, LayerStore
from branchpoint_vmruntime.workshop import Workshop

FILES = {KERNEL: "a kernel", ROOT: "a root", DISK: "a disk"}
BASE = a_base("base0000")
LOADED = replace(a_checkpoint("loaded00", BASE.id, session="s-1"), label="loaded")
FITTED = replace(a_checkpoint("fitted00", LOADED.id, session="s-1"), label="fitted")
SOMEBODY = Identity.new(session="s-1", branch="main", index=0)
TREE = Tree([BASE, LOADED, FITTED])


class Shop:
    """A workshop with a base and two checkpoints, one upon the other, and where they are."""

    def __init__(self, folder: Path) -> None:
        self.layers = folder / "layers"
        made_layer(self.layers / "base", BASE.id, memory=bytes(MEMORY_BYTES))
        for name in (LOADED.id, FITTED.id):
            made_layer(self.layers / "s-1", name, memory=memory_layer(folder), disk=b"QFI\xfb")
        (folder / "image").mkdir()
        (folder / "image" / "overlay").write_bytes(b"QFI\xfb")
        self.foundation = Foundation(
            emulator=Emulator(argv=("qemu",), accelerator="tcg"),
            size=MachineSize(memory_mib=1),
            kernel=folder / "image" / KERNEL,
            initramfs=folder / "image" / "initramfs",
            initramfs_digest="1n1t",
            root=folder / "image" / ROOT,
            disk_template=folder / "image" / DISK,
            overlay_template=folder / "image" / "overlay",
            facts=FACTS_HERE,
            image_files=FILES,
        )
        self.live = folder / "live"
        self.workshop = Workshop(
            foundation=self.foundation,
            bases=LayerStore(self.layers / "base"),
            layers=LayerStore(self.layers / "s-1"),
            flats=FlatImages(folder / "flat"),
            live=self.live,
        )

    def layer(self, checkpoint: CheckpointId) -> Layer:
        """Where one is."""
        return Layer(self.layers / ("base" if checkpoint == BASE.id else "s-1") / checkpoint)

    async def wake(self, checkpoint: Checkpoint = FITTED) -> BranchpointError:
        """What a machine that is to carry on from a checkpoint ends with."""
        with pytest.raises(BranchpointError) as told:
            await self.workshop.wake(TREE, checkpoint, SOMEBODY, reseed=False)
        assert not list(self.live.glob("*"))
        return told.value


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_what_stands_on_the_image_there_is_can_be_loaded_and_what_is_not_noted_is_taken_for_that(
    shop: Shop,
) -> None:
    shop.workshop.require_loadable(TREE, FITTED)
    shop.layer(BASE.id).note_image(FILES)
    shop.workshop.require_loadable(TREE, FITTED)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({KERNEL: "0"}, "its kernel is not the same"),
        ({KERNEL: "0", ROOT: "0"}, "its kernel and root file system are not the same"),
        ({DISK: "0"}, "its disk template is not the same"),
    ],
)
def test_what_was_saved_on_an_image_that_came_out_otherwise_since_is_refused(
    shop: Shop, changed: dict[str, str], words: str
) -> None:
    shop.layer(BASE.id).note_image(FILES | changed)
    for checkpoint in (BASE, LOADED, FITTED):
        with pytest.raises(IncompatibleError, match=f"made anew .*{words}") as told:
            shop.workshop.require_loadable(TREE, checkpoint)
        assert "--with-image" in told.value.hint
        assert str(shop.foundation.root.parent) in told.value.hint


@pytest.mark.parametrize("name", ["memory", "devices", "machine.json", "nonce", "disk-000.qcow2"])
@in_a_loop
async def test_a_file_that_is_missing_is_told_with_the_checkpoint_and_how_to_hear_of_the_rest(
    shop: Shop, name: str
) -> None:
    path = shop.layer(FITTED.id).folder / name
    path.unlink()
    error = await shop.wake()
    assert isinstance(error, DamagedError)
    assert str(error).startswith("checkpoint 'fitted' ")
    assert str(path.parent) in str(error)
    assert "as it was" in error.hint
    assert "branchpoint verify" in error.hint


@pytest.mark.parametrize("name", ["memory", "disk-000.qcow2"])
@in_a_loop
async def test_a_file_of_an_ancestor_that_is_missing_is_told_as_well(shop: Shop, name: str) -> None:
    path = shop.layer(LOADED.id).folder / name
    path.unlink()
    error = await shop.wake()
    assert isinstance(error, DamagedError)
    assert str(error).startswith("checkpoint 'fitted' ")
    assert str(path) in str(error)


@in_a_loop
async def test_a_layer_that_is_cut_short_is_told_with_the_checkpoint(shop: Shop) -> None:
    os.truncate(shop.layer(LOADED.id).memory, 20)
    error = await shop.wake()
    assert isinstance(error, DamagedError)
    assert str(error).startswith("checkpoint 'fitted' ")
    assert "is cut short" in str(error)
    assert "branchpoint verify" in error.hint


@in_a_loop
async def test_an_image_that_is_gone_is_told_as_what_the_checkpoint_is_read_from(
    shop: Shop,
) -> None:
    shop.foundation.overlay_template.unlink()
    error = await shop.wake()
    assert isinstance(error, DamagedError)
    assert str(shop.foundation.overlay_template) in str(error)


class Disk:
    """Fails with an error as memory is copied from it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self._number = number
        monkeypatch.setattr(os, "copy_file_range", self._fail)

    def _fail(self, *_: object) -> int:
        raise OSError(self._number, os.strerror(self._number))


@in_a_loop
async def test_a_disk_that_cannot_read_a_layer_is_told_and_not_as_one_that_cannot_write(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, errno.EIO)
    error = await shop.wake()
    assert isinstance(error, DamagedError)
    assert str(error) == "checkpoint 'fitted' cannot be read: Input/output error"
    assert "runs on" not in error.hint
    assert "kept" not in error.hint


@in_a_loop
async def test_a_disk_that_is_full_and_want_of_files_or_memory_are_no_damage(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, errno.ENOSPC)
    assert isinstance(await shop.wake(), StorageError)
    Disk(monkeypatch, errno.EMFILE)
    error = await shop.wake()
    assert isinstance(error, HostError)
    assert str(error) == "checkpoint 'fitted' could not be restored: Too many open files"
    assert "as it was" in error.hint


@in_a_loop
async def test_a_place_that_cannot_be_written_is_named_and_is_no_damage(shop: Shop) -> None:
    shop.live.write_bytes(b"a file where folders of machines are made")
    error = await shop.wake()
    assert isinstance(error, HostError)
    assert str(error).startswith(f"checkpoint 'fitted' could not be restored: {shop.live}")
    assert "as it was" in error.hint


@in_a_loop
async def test_a_parent_that_cannot_be_read_is_told_by_who_saves_and_nothing_of_that_is_left(
    shop: Shop,
) -> None:
    shop.layer(LOADED.id).memory.unlink()
    staged = LayerStore(shop.layers / "s-1").stage(CheckpointId("half0000"))
    pending = Draft(
        id=CheckpointId("half0000"),
        order=replace(ORDER, parent=FITTED.id),
        staged=staged,
        captured=cast("Capture", None),
        started_at=FITTED.created_at,
        started_s=0.0,
    )
    with pytest.raises(DamagedError, match=r"'fitted' cannot be read: .*loaded00/memory"):
        await shop.workshop.publish(pending, cast("Live", None), TREE)
    assert not staged.folder.exists()
