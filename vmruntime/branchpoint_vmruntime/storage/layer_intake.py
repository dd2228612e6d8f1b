"""Takes in the layers that a file carries, each looked at before it is given a place.

What is here already, and whole, is not written once more; nothing is written over.
"""

import contextlib
import os
import struct
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from branchpoint_vmruntime.checkpoint import new_checkpoint_id
from branchpoint_vmruntime.errors import DamagedError, IncompatibleError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import BOUND_TO
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId, CheckpointKind, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import read_runs
from branchpoint_vmruntime.storage.digests import (
    DIGESTS,
    FileDigest,
    check,
    file_digest,
    note_digests,
    read_digests,
)
from branchpoint_vmruntime.storage.package_format import FOREIGN, CarriedFile, CarriedLayer
from branchpoint_vmruntime.storage.package_stream import Heard, PackageReader, Take
from branchpoint_vmruntime.store import IMAGE, Layer, LayerStore, MachineFacts

# <https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst>
_QCOW2 = struct.Struct(">4sIQIIQIIQQIIQQ")
_QCOW2_MAGIC = b"QFI\xfb"
# Dirty, compression type, extended L2 entries: not corrupt, and above all no external data file.
_QCOW2_FEATURES = 0b11001
_QCOW2_3_BYTES = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """A carried layer, what it is called here, and where it is made; None if it is here already."""

    carried: CarriedLayer
    id: CheckpointId
    staged: Layer | None


class LayerIntake:
    """The layers of one file, base first, made in the folder of the session they will belong to."""

    def __init__(
        self,
        home: Home,
        journal: Journal,
        folder: Path,
        facts: MachineFacts,
        image: Mapping[str, str],
    ) -> None:
        self._journal = journal
        self._layers = home.layers
        self._bases = LayerStore(home.layers / "base")
        self._own = LayerStore(folder)
        self._facts = facts
        self._image = image
        self._taken: list[_Taken] = []
        self.ids: dict[CheckpointId, CheckpointId] = {}

    def take(self, reader: PackageReader, carried: CarriedLayer, heard: Heard) -> None:
        """Read the next layer. DamagedError if it is not what it should be."""
        checkpoint = carried.checkpoint
        known = self._journal.checkpoint(checkpoint.id)
        whole = known if known is not None and self._is_whole(carried, known) else None
        if whole is not None and whole.kind is CheckpointKind.BASE:
            self._skip(reader, carried, heard)
            self._note(carried, checkpoint.id, None)
            return
        # A checkpoint belongs to one session: here again, it gets an id of its own. So does a base
        # that is damaged here: a file is not believed so far as to mend what others stand on.
        name = checkpoint.id if known is None else new_checkpoint_id()
        staged = self._own.stage(name)
        if whole is not None:
            self._link(whole, staged)
            self._skip(reader, carried, heard)
        else:
            for file in carried.files:
                with write_file(staged.folder / file.name, file) as write:
                    reader.read(file, write, heard)
            self._check(staged, checkpoint)
        digests = {f.name: FileDigest(sha256=f.sha256, bytes=f.size) for f in carried.files}
        if checkpoint.kind is CheckpointKind.BASE:
            staged.note_image({name: self._image[name] for name in BOUND_TO})
            digests[IMAGE] = file_digest(staged.folder / IMAGE)
        note_digests(staged, digests)
        self._note(carried, name, staged)

    def publish(self, undo: ExitStack) -> None:
        """Put every layer in its place. For whoever holds the folder of all layers."""
        for taken in self._taken:
            known = self._journal.checkpoint(taken.id)
            if taken.staged is None:
                if known is None:
                    raise IncompatibleError(
                        f"base {taken.id} was removed while the file was read",
                        hint="import it once more",
                    )
            elif taken.carried.checkpoint.kind is not CheckpointKind.BASE:
                self._own.publish(taken.staged, taken.id)
            elif known is None:
                # What is there without a record was left by an import that was killed.
                self._bases.discard(self._bases.layer(taken.id))
                undo.callback(self._bases.discard, self._bases.layer(taken.id))
                self._bases.publish(taken.staged, taken.id)
            else:
                self._require_identical(taken.carried, known)
                self._own.discard(taken.staged)

    def records(self, session: SessionId, *, position: int) -> list[Checkpoint]:
        """What is new, as it is to be put on record. `position` is how far the ledger is here."""
        return [
            self._record(taken, session, position)
            for taken in self._taken
            if self._journal.checkpoint(taken.id) is None
        ]

    def _record(self, taken: _Taken, session: SessionId, position: int) -> Checkpoint:
        checkpoint = taken.carried.checkpoint
        is_base = checkpoint.kind is CheckpointKind.BASE
        foreign = checkpoint.key if checkpoint.key.startswith(FOREIGN) else ""
        return replace(
            checkpoint,
            id=taken.id,
            session=None if is_base else session,
            parent=None if checkpoint.parent is None else self.ids[checkpoint.parent],
            key=(foreign or FOREIGN + checkpoint.key) if is_base else self._facts.key,
            note="".join(c for c in checkpoint.note if c.isprintable() or c == "\n"),
            moment=replace(checkpoint.moment, position=position),
        )

    def _note(self, carried: CarriedLayer, name: CheckpointId, staged: Layer | None) -> None:
        self.ids[carried.checkpoint.id] = name
        self._taken.append(_Taken(carried=carried, id=name, staged=staged))

    def _skip(self, reader: PackageReader, carried: CarriedLayer, heard: Heard) -> None:
        for file in carried.files:
            reader.read(file, lambda _offset, _data: None, heard)

    def _link(self, known: Checkpoint, staged: Layer) -> None:
        for path in self._here(known).folder.iterdir():
            if path.name != DIGESTS:
                (staged.folder / path.name).hardlink_to(path)

    def _here(self, known: Checkpoint) -> Layer:
        return Layer(self._layers / (known.session or "base") / known.id)

    def _is_whole(self, carried: CarriedLayer, known: Checkpoint) -> bool:
        """Whether what is here under that id is what is carried, byte for byte.

        IncompatibleError if it is not damaged but something else.
        """
        self._require_identical(carried, known)
        return not check(self._here(known))

    def _require_identical(self, carried: CarriedLayer, known: Checkpoint) -> None:
        """IncompatibleError if what is here under that id is something else, as far as is told."""
        ours, theirs = _told_of(self._here(known)), carried.digests
        different = sorted(n for n in {*ours, *theirs} if ours.get(n) != theirs.get(n))
        if not ours:
            different = []
        if (known.kind is CheckpointKind.BASE) != (carried.checkpoint.kind is CheckpointKind.BASE):
            different.append("kind")
        if different:
            raise IncompatibleError(
                f"there is already a checkpoint {known.id} here, and it is another:"
                f" {', '.join(different)}",
                hint="import the file into a home of its own (BRANCHPOINT_HOME); nothing was"
                " overwritten or imported",
            )

    def _check(self, staged: Layer, checkpoint: Checkpoint) -> None:
        """See that a layer holds nothing but what a checkpoint of such a machine would."""
        if staged.facts().key != self._facts.key:
            raise DamagedError(f"checkpoint {checkpoint.id} is of another machine than the file")
        if not staged.nonce.isprintable():
            raise DamagedError(f"checkpoint {checkpoint.id} has a nonce that is none")
        for disk in staged.disks:
            check_overlay(disk)
        if checkpoint.kind is not CheckpointKind.BASE:
            memory_bytes = self._facts.memory_mib << 20
            for run, _ in read_runs(staged.memory, memory_bytes):
                if (run.first + run.count) * PAGE > memory_bytes:
                    raise DamagedError(f"checkpoint {checkpoint.id} has pages beyond its memory")


def _told_of(layer: Layer) -> dict[str, str]:
    """The sha256 of each file of a layer that is carried.

    Nothing if it is damaged so that they cannot be told.
    """
    with contextlib.suppress(DamagedError, OSError):
        if noted := read_digests(layer):
            return {name: noted[name].sha256 for name in noted if name != IMAGE}
        if not check(layer):
            there = [path for path in layer.folder.iterdir() if path.name != IMAGE]
            return {path.name: file_digest(path).sha256 for path in there}
    return {}


@contextlib.contextmanager
def write_file(place: Path, file: CarriedFile) -> Generator[Take]:
    """Make a file, and give what writes a piece of it; what is not written stays a hole."""
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, file.size)

        def write(offset: int, data: bytes) -> None:
            view = memoryview(data)
            while view:
                written = os.pwrite(fd, view, offset)
                view, offset = view[written:], offset + written

        yield write
    finally:
        os.close(fd)


def check_overlay(path: Path) -> None:
    """DamagedError if a disk would have QEMU open another file, or is not a qcow2 at all.

    A backing file, or a file with the data, could be any that this user may read.
    """
    with path.open("rb") as file:
        head = file.read(_QCOW2_3_BYTES).ljust(_QCOW2_3_BYTES, b"\0")
    magic, version, backing, backing_bytes, *_ = fields = _QCOW2.unpack_from(head)
    crypt, snapshots, features = fields[6], fields[11], fields[13]
    if magic != _QCOW2_MAGIC or version not in (2, 3):
        raise DamagedError(f"{path.name} is not a disk")
    if backing or backing_bytes:
        raise DamagedError(f"{path.name} names a file to stand on; a checkpoint's disk does not")
    if crypt or snapshots or (version > 2 and features & ~_QCOW2_FEATURES):
        raise DamagedError(f"{path.name} asks for what a checkpoint's disk does not need")
