"""Making ext4 file systems: the same bytes every time, and root's whoever makes them."""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.epoch import BUILD_TIME_S

# Named one by one, because the defaults differ between e2fsprogs 1.47.0 and 1.47.2.
FEATURES = (
    "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,"
    "filetype,flex_bg,huge_file,large_file,sparse_super"
)
UUID = "b4a2c0de-0000-4000-8000-000000000001"
SUPERBLOCK = 1024
READ_ONLY_METADATA_CSUM = 0x400
INCOMPATIBLE_64BIT = 0x80


def make_ext4(
    mke2fs: Sequence[str],
    image: Path,
    *,
    size_mib: int,
    inode_bytes: int,
    folder: Path | None = None,
) -> None:
    """A new file system in the sparse file `image`, without a journal, filled from `folder`."""
    with image.open("xb") as file:
        file.truncate(size_mib << 20)
    filled = ["-d", str(folder)] if folder else []
    run_command(
        [
            *mke2fs, "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0",
            "-i", str(inode_bytes), "-O", FEATURES, "-U", UUID, "-L", "branchpoint",
            "-E", f"root_owner=0:0,hash_seed={UUID},lazy_itable_init=0,nodiscard",
            *filled, image,
        ],
        purpose=f"make the file system {image.name}",
        environment={
            "E2FSPROGS_FAKE_TIME": str(BUILD_TIME_S),
            "SOURCE_DATE_EPOCH": str(BUILD_TIME_S),
            "MKE2FS_CONFIG": "/dev/null",
        },
    )  # fmt: skip
    normalise(image)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a file system keeps its inodes."""

    block_bytes: int
    inode_bytes: int
    inodes: int
    inodes_per_group: int
    descriptor_bytes: int
    descriptors_at: int


def read_layout(data: bytearray) -> Layout:
    """The layout in a superblock; ImageBuildError if inodes carry sums, which we would break."""
    word = struct.Struct("<I").unpack_from
    half = struct.Struct("<H").unpack_from
    (inodes,) = word(data, SUPERBLOCK)
    (first,) = word(data, SUPERBLOCK + 20)
    (log_block,) = word(data, SUPERBLOCK + 24)
    (per_group,) = word(data, SUPERBLOCK + 40)
    (magic,) = half(data, SUPERBLOCK + 56)
    (inode_bytes,) = half(data, SUPERBLOCK + 88)
    (incompatible,) = word(data, SUPERBLOCK + 96)
    (read_only,) = word(data, SUPERBLOCK + 100)
    (descriptor_bytes,) = half(data, SUPERBLOCK + 254)
    if magic != 0xEF53 or read_only & READ_ONLY_METADATA_CSUM:
        raise ImageBuildError("mke2fs made something else than was asked for")
    block = 1024 << log_block
    wide = bool(incompatible & INCOMPATIBLE_64BIT)
    return Layout(
        block_bytes=block,
        inode_bytes=inode_bytes,
        inodes=inodes,
        inodes_per_group=per_group,
        descriptor_bytes=descriptor_bytes if wide else 32,
        descriptors_at=(first + 1) * block,
    )


def normalise(image: Path) -> None:
    """Give every inode to root and date it to the build; mke2fs -d took both from the host's.

    Read and written, not mapped: for want of room, or on a failing disk, a mapping would not give
    an error but kill this process. Unused inodes are not written, so that their holes stay.
    """
    with image.open("r+b", buffering=0) as file:
        fd = file.fileno()
        layout = read_layout(_read(fd, 0, 2 * SUPERBLOCK))
        groups = -(-layout.inodes // layout.inodes_per_group)
        descriptors = _read(fd, layout.descriptors_at, groups * layout.descriptor_bytes)
        for group in range(groups):
            descriptor = group * layout.descriptor_bytes
            (table,) = struct.unpack_from("<I", descriptors, descriptor + 8)
            if layout.descriptor_bytes >= 64:
                (high,) = struct.unpack_from("<I", descriptors, descriptor + 0x28)
                table |= high << 32
            start = table * layout.block_bytes
            inodes = _read(fd, start, layout.inodes_per_group * layout.inode_bytes)
            for at in range(0, len(inodes), layout.inode_bytes):
                inode = inodes[at : at + layout.inode_bytes]
                if any(inode[:2]):
                    _normalise_inode(inode)
                    os.pwrite(fd, inode, start + at)
        os.fsync(fd)


def _read(fd: int, offset: int, size: int) -> bytearray:
    data = bytearray(os.pread(fd, size, offset))
    if len(data) < size:
        raise ImageBuildError("mke2fs made a file system that is cut short")
    return data


def _normalise_inode(inode: bytearray) -> None:
    struct.pack_into("<H", inode, 2, 0)
    struct.pack_into("<III", inode, 8, BUILD_TIME_S, BUILD_TIME_S, BUILD_TIME_S)
    struct.pack_into("<H", inode, 24, 0)
    struct.pack_into("<HH", inode, 0x78, 0, 0)
    if len(inode) > 128 and struct.unpack_from("<H", inode, 128)[0] >= 24:
        # The parts of a second, and the time of creation.
        struct.pack_into("<IIIII", inode, 0x84, 0, 0, 0, BUILD_TIME_S, 0)
