"""Layers as checkpoints leave them, but small."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.storage.digests import write_digests
from branchpoint_vmruntime.store import Layer, LayerStore, MachineFacts

FACTS_HERE = MachineFacts(
    qemu="QEMU 10.0.2 (0a1b2c)",
    accelerator="tcg",
    cpu="max",
    memory_mib=1,
    vcpus=1,
    image="d1g357",
    protocol=4,
    tsc_khz=2_000_000,
)


def made_layer(
    folder: Path,
    checkpoint: str,
    *,
    memory: bytes = b"memory",
    disk: bytes = b"",
    noted: bool = True,
    image: Mapping[str, str] = MappingProxyType({}),
) -> Layer:
    """A layer put in place, with a note of what its files hold unless told otherwise.

    In that of a base it may be noted what its image came out as.
    """
    store, name = LayerStore(folder), CheckpointId(checkpoint)
    staged = store.stage(name)
    staged.memory.write_bytes(memory)
    staged.devices.write_bytes(b"devices")
    staged.write_facts(FACTS_HERE, "c0ffee")
    if image:
        staged.note_image(image)
    if disk:
        (staged.folder / "disk-000.qcow2").write_bytes(disk)
    if noted:
        write_digests(staged)
    return store.publish(staged, name)
