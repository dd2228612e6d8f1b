"""The qcow2 files behind a machine's writable disk."""

from collections.abc import Sequence
from pathlib import Path

from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.ext4 import make_ext4

# Half a million files, in tables of 128 MiB that take no room until they are used.
DISK_INODE_BYTES = 32768


def make_disk_template(
    qemu_img: Sequence[str], mke2fs: Sequence[str], template: Path, *, size_mib: int
) -> None:
    """An empty ext4 as qcow2: what every machine's first overlay lies on."""
    raw = template.with_suffix(".raw")
    make_ext4(mke2fs, raw, size_mib=size_mib, inode_bytes=DISK_INODE_BYTES)
    run_command(
        [*qemu_img, "convert", "-f", "raw", "-O", "qcow2", raw, template],
        purpose="make the disk template",
    )
    raw.unlink()


def make_overlay_template(qemu_img: Sequence[str], overlay: Path, *, size_mib: int) -> None:
    """An empty qcow2 that names no backing file; copied for each machine, and told its backing."""
    run_command(
        [*qemu_img, "create", "-q", "-f", "qcow2", overlay, f"{size_mib}M"],
        purpose="make the overlay template",
    )
