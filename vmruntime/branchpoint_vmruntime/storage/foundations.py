"""Which base checkpoints, images and guest code a new machine would still use on this host."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from branchpoint_vmruntime.base import base_key
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host_facts import PROTOCOL
from branchpoint_vmruntime.image.build import BUSYBOX, KERNEL_TREE
from branchpoint_vmruntime.image.guest_image import MANIFEST, open_image
from branchpoint_vmruntime.image.initramfs import pack_initramfs
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.storage.collection import Removal, Waste
from branchpoint_vmruntime.storage.package_format import FOREIGN
from branchpoint_vmruntime.storage.sizes import layer_of, on_disk
from branchpoint_vmruntime.store import MachineFacts

# Whoever made it may be on the way to using it for the first time.
_YOUNG_S = 3600.0
_KEPT_ANSWER = "accelerator.json"


class Foundations:
    """Looks at a home's bases and images beside what this installation would make now.

    `qemu` is the build of QEMU that is installed, None if none is found: then no base is called
    old. `guest_sources` are the packages that run in machines.
    """

    def __init__(
        self,
        home: Home,
        *,
        qemu: str | None,
        guest_sources: Sequence[Path],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._home = home
        self._qemu = qemu
        self._sources = guest_sources
        self._now = now
        self._default = Recipe.default().digest
        self._initramfs: dict[str, tuple[str, Path] | None] = {}

    def usable(self, bases: Sequence[Checkpoint]) -> set[CheckpointId]:
        """The bases that a new machine of some size and kernel would be forked from.

        Of those made in the same way, the newest.
        """
        newest = {base.key: base for base in bases if self._is_usable(base)}
        return {base.id for base in newest.values()}

    def is_default(self, base: Checkpoint) -> bool:
        """Whether a base stands on the image that is used unless a manifest says otherwise."""
        facts = _facts(self._home, base)
        return facts is not None and facts.image == self._default

    def unreadable(self, bases: Sequence[Checkpoint]) -> list[Checkpoint]:
        """The bases of which it cannot be read what they stand on.

        What descends from one may be restored all the same, on its image.
        """
        return [base for base in bases if _facts(self._home, base) is None]

    def old_images(self, bases: Sequence[Checkpoint]) -> Iterator[Removal]:
        """Images that no base stands on any more, and what an unfinished build left.

        No image, if of some base it is unknown. The caller holds the lock of builds.
        """
        needed = {facts.image for base in bases if (facts := _facts(self._home, base))}
        told = not self.unreadable(bases)
        for folder in sorted(self._home.images.iterdir()):
            if not folder.is_dir() or folder.is_symlink():
                continue
            if folder.name.startswith("."):
                yield _removal(Waste.IMAGE, folder, "its build was not finished")
            elif told and folder.name not in {*needed, self._default} and self._is_aged(folder):
                yield _removal(Waste.IMAGE, folder, "no base checkpoint stands on it")

    def old_initramfs(self, going: AbstractSet[Path]) -> Iterator[Removal]:
        """Guest code of earlier versions, in images that stay: only a boot reads it."""
        for folder in sorted(self._home.images.glob("*")):
            present = self._present(folder.name)
            if folder in going or present is None:
                continue
            for path in sorted([*folder.glob("initramfs-*.cpio"), *folder.glob(".initramfs-*")]):
                if path != present[1] and self._is_aged(path):
                    yield _removal(Waste.INITRAMFS, path, "guest code of another version")

    def cache(self) -> Iterator[Removal]:
        """Downloads of builds that are over. The caller holds the lock of builds."""
        for path in sorted(self._home.cache.iterdir()):
            if path.name != _KEPT_ANSWER:
                yield _removal(Waste.CACHE, path, "downloads, made again when they are needed")

    def _is_usable(self, base: Checkpoint) -> bool:
        if base.key.startswith(FOREIGN):
            return False
        if self._qemu is None:
            return True
        facts = _facts(self._home, base)
        if facts is None or (facts.qemu, facts.protocol) != (self._qemu, PROTOCOL):
            return False
        present = self._present(facts.image)
        if present is None or not self._is_on_present_image(base, facts.image):
            return False
        if base.key == _key(facts, present[0]):
            return True
        # Of another kernel than Python's: which guest code it booted with is not on record.
        return present[1].exists() and base.created_at.timestamp() >= present[1].stat().st_mtime

    def _is_on_present_image(self, base: Checkpoint, image: str) -> bool:
        """Whether the image is still as it was when the base was booted, as far as is noted."""
        try:
            noted = layer_of(self._home, base).noted_image()
            return not noted or noted == open_image(self._home.images / image).bound_to
        except BranchpointError:
            return False

    def _present(self, image: str) -> tuple[str, Path] | None:
        """The digest and the file of what a machine of that image would boot with now."""
        if image not in self._initramfs:
            self._initramfs[image] = self._packed(self._home.images / image)
        return self._initramfs[image]

    def _packed(self, folder: Path) -> tuple[str, Path] | None:
        if not (folder / MANIFEST).exists():
            return None
        try:
            archive = pack_initramfs(folder / KERNEL_TREE, folder / BUSYBOX, self._sources)
        except (BranchpointError, OSError):
            return None
        digest = hashlib.sha256(archive).hexdigest()
        return digest, folder / f"initramfs-{digest[:32]}.cpio"

    def _is_aged(self, path: Path) -> bool:
        return self._now() - path.stat().st_mtime > _YOUNG_S


def needed_bases(checkpoints: Mapping[CheckpointId, Checkpoint]) -> set[CheckpointId]:
    """The bases that some checkpoint was taken directly after."""
    parents = {each.parent for each in checkpoints.values() if each.parent}
    return {parent for parent in parents if parent in checkpoints}


def _facts(home: Home, base: Checkpoint) -> MachineFacts | None:
    try:
        return layer_of(home, base).facts()
    except BranchpointError:
        return None


def _key(facts: MachineFacts, initramfs: str) -> str:
    nowhere = Path()
    foundation = Foundation(
        emulator=Emulator(argv=(), accelerator=facts.accelerator),
        size=MachineSize(memory_mib=facts.memory_mib, vcpus=facts.vcpus),
        kernel=nowhere,
        initramfs=nowhere,
        initramfs_digest=initramfs,
        root=nowhere,
        disk_template=nowhere,
        overlay_template=nowhere,
        facts=facts,
    )
    return base_key(foundation)


def _removal(kind: Waste, path: Path, why: str) -> Removal:
    return Removal(kind=kind, name=path.name, path=path, bytes=on_disk(path), why=why)
