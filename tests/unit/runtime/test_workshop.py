"""What a checkpoint is made of must be there, as it was: else no machine is made of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base, a_checkpoint
from tests.unit.storage.layers import FACTS_HERE, made_layer

from branchpoint_vmruntime.errors import IncompatibleError
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.image.guest_image import DISK, KERNEL, ROOT
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.memory.flat import FlatImages
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.store import Layer, LayerStore
from branchpoint_vmruntime.workshop import Workshop

FILES = {KERNEL: "a kernel", ROOT: "a root", DISK: "a disk"}
BASE = a_base("base0000")
LOADED = replace(a_checkpoint("loaded00", BASE.id, session="s-1"), label="loaded")
FITTED = replace(a_checkpoint("fitted00", LOADED.id, session="s-1"), label="fitted")
TREE = Tree([BASE, LOADED, FITTED])


class Shop:
    """A workshop with a base and two checkpoints, one upon the other, and where they are."""

    def __init__(self, folder: Path) -> None:
        self.layers = folder / "layers"
        for session, name in (("base", BASE.id), ("s-1", LOADED.id), ("s-1", FITTED.id)):
            made_layer(self.layers / session, name)
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
        self.workshop = Workshop(
            foundation=self.foundation,
            bases=LayerStore(self.layers / "base"),
            layers=LayerStore(self.layers / "s-1"),
            flats=FlatImages(folder / "flat"),
            live=folder / "live",
        )

    def layer(self, checkpoint: CheckpointId) -> Layer:
        """Where one is."""
        return Layer(self.layers / ("base" if checkpoint == BASE.id else "s-1") / checkpoint)


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
