"""A home with a session that was saved twice, small enough to be moved in no time."""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard
from tests.unit.storage.layers import FACTS_HERE

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import (
    DISK,
    FILES,
    KERNEL,
    MANIFEST,
    OVERLAY,
    PROBE,
    ROOT,
    GuestImage,
    open_image,
)
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Cell,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import PageRun, write_layer
from branchpoint_vmruntime.storage.digests import write_digests
from branchpoint_vmruntime.storage.exporting import Exported, export_checkpoint
from branchpoint_vmruntime.storage.importing import FactsHere, Imported, import_file
from branchpoint_vmruntime.store import Layer, LayerStore, MachineFacts

IMAGE = "ab" * 32
FACTS = replace(FACTS_HERE, image=IMAGE)
SESSION = SessionId("5e5510a0aaaa")
BASE, FIRST, SECOND = (CheckpointId(f"{name}0000") for name in ("ba5e0000", "f1250000", "5ec00000"))
DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEAD_BYTES = 12
MIB = 1 << 20

FILES_OF_IMAGE = {
    KERNEL: b"a kernel",
    ROOT: b"\0" * 200_000 + b"a root" + b"\0" * 300_000,
    DISK: b"a disk",
    OVERLAY: b"an overlay",
    PROBE: b"a probe",
    "busybox": b"a busybox",
    "kernel/lib/modules/6.1/virtio_blk.ko": b"a module",
}


@dataclass(frozen=True, slots=True)
class Furnished:
    """A home with `SESSION`, whose checkpoints are `BASE`, `FIRST` and `SECOND`."""

    home: Home

    @property
    def session(self) -> SessionRecord:
        with Journal.read(self.home.database) as journal:
            found = journal.session(SESSION)
        assert found is not None
        return found

    def checkpoint(self, id: str = SECOND) -> Checkpoint:  # noqa: A002
        with Journal.read(self.home.database) as journal:
            found = journal.checkpoint(CheckpointId(id))
        assert found is not None
        return found

    def layer(self, id: str) -> Layer:  # noqa: A002
        return Layer(self.home.layers / ("base" if id == BASE else SESSION) / id)

    def export(self, file: Path, *, with_image: bool = False) -> Exported:
        return export_checkpoint(
            self.home,
            self.session,
            self.checkpoint(),
            file,
            progress=SilentProgress(),
            with_image=with_image,
        )


def furnished(root: Path, *, noted: bool = True) -> Furnished:
    """A home with a session saved twice; without notes of digests and image, as at one time."""
    home = home_with_image(root)
    bases, own = LayerStore(home.layers / "base"), LayerStore(home.layers / SESSION)
    base = bases.stage(BASE)
    with base.memory.open("xb") as file:
        file.truncate(MIB)
        file.seek(5 * PAGE)
        file.write(b"\x01" * PAGE)
    if noted:
        base.note_image(open_image(home.images / IMAGE).bound_to)
    _finish(bases, base, BASE, noted=noted)
    for name, fill in ((FIRST, b"\x02"), (SECOND, b"\x03")):
        layer = own.stage(name)
        runs = [
            (PageRun(7, 2, zero=False), memoryview(fill * 2 * PAGE)),
            (PageRun(5, 1, zero=True), memoryview(b"")),
        ]
        write_layer(layer.memory, MIB, runs)
        _finish(own, layer, name, noted=noted)
    with Journal.open(home.database) as journal:
        _record(journal)
    return Furnished(home)


def home_with_image(root: Path, files: dict[str, bytes] | None = None) -> Home:
    """A home that has an image and nothing else."""
    home = Home(root, root / "run")
    home.ensure()
    folder = home.images / IMAGE
    made = FILES_OF_IMAGE | (files or {})
    for name, data in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    sha256 = {name: hashlib.sha256(made[name]).hexdigest() for name in FILES}
    said: dict[str, object] = {"digest": IMAGE, "debs": {}, "wheels": [], "sha256": sha256}
    (folder / MANIFEST).write_text(json.dumps(said))
    return home


def empty_home(root: Path) -> Home:
    """A home that has nothing at all."""
    home = Home(root, root / "run")
    home.ensure()
    return home


def same_facts(_home: Home, image: GuestImage, _saved: MachineFacts) -> MachineFacts:
    """A host that is like the one where it was saved."""
    return replace(FACTS, image=image.digest)


def take_in(
    home: Home, file: Path, *, name: str | None = None, facts: FactsHere = same_facts
) -> Imported:
    return import_file(home, file, progress=SilentProgress(), name=name, facts=facts)


def files_in(home: Home) -> set[str]:
    """All that is there, but for the database's own."""
    return {
        path.relative_to(home.root).as_posix()
        for path in home.root.rglob("*")
        if not path.name.startswith(("lineage.db", "ledger.db")) and path.name != "run"
    }


def altered(
    source: Path,
    target: Path,
    *,
    change: Callable[[Any], object] | None = None,
    body: Callable[[bytes], bytes] | None = None,
) -> Path:
    """What someone of ill will would write: another header or content, every checksum right."""
    data = source.read_bytes()
    (length,) = struct.unpack("<I", data[8:LEAD_BYTES])
    header = json.loads(data[LEAD_BYTES : LEAD_BYTES + length])
    frame = data[LEAD_BYTES + length + 32 : -32]
    content = zstandard.ZstdDecompressor().decompressobj().decompress(frame)
    if change is not None:
        change(header)
    if body is not None:
        content = body(content)
    return written(target, json.dumps(header).encode(), content)


def written(target: Path, header: bytes, content: bytes, *, magic: bytes = b"BPPACK01") -> Path:
    lead = magic + struct.pack("<I", len(header)) + header
    lead += hashlib.sha256(lead).digest()
    whole = lead + zstandard.ZstdCompressor().compress(content)
    target.write_bytes(whole + hashlib.sha256(whole).digest())
    return target


def overlay(*, backing: int = 0, features: int = 0, snapshots: int = 0) -> bytes:
    """The beginning of a qcow2 of version 3."""
    head = struct.pack(
        ">4sIQIIQIIQQIIQQ",
        *(b"QFI\xfb", 3, backing, 9 if backing else 0, 16, MIB, 0, 1, 0, 0, 1, snapshots, 0),
        features,
    )
    return head.ljust(512, b"\0") + b"/etc/passwd".ljust(512, b"\0")


def _finish(store: LayerStore, layer: Layer, name: CheckpointId, *, noted: bool) -> None:
    layer.devices.write_bytes(b"devices of " + name.encode())
    layer.write_facts(FACTS, "c0ffee")
    (layer.folder / "disk-000.qcow2").write_bytes(overlay())
    if noted:
        write_digests(layer)
    store.publish(layer, name)


def _record(journal: Journal) -> None:
    journal.add_session(
        SessionRecord(id=SESSION, key="/home/me/a.ipynb", created_at=DAY, start=FIRST)
    )
    parent = None
    for name, label in ((BASE, "base"), (FIRST, "loaded"), (SECOND, "trained")):
        journal.add_checkpoint(
            Checkpoint(
                id=name,
                session=None if parent is None else SESSION,
                parent=parent,
                label=label,
                note="",
                kind=CheckpointKind.BASE if parent is None else CheckpointKind.USER,
                branch=BranchName("main"),
                created_at=DAY,
                key=FACTS.key,
                cost=CheckpointCost(memory_bytes=2 * PAGE, phases_ms={"write": 3.0}),
                moment=Moment(count=3, cell=Cell(id="c3", count=3, source="1 + 1"), position=40),
            ),
            advance=None,
        )
        parent = name
    journal.put_branch(
        BranchRecord(
            session=SESSION,
            name=BranchName("main"),
            index=0,
            parent=None,
            origin=BASE,
            head=SECOND,
            state=BranchState.LOST,
            created_at=DAY,
        )
    )
    for name in (FIRST, SECOND):
        journal.add_operation(
            Operation(
                session=SESSION,
                op="checkpoint",
                branch=BranchName("main"),
                checkpoint=name,
                at=DAY,
                total_ms=80.0,
            )
        )
    journal.pin(FIRST, pinned=True)
