"""A home on a file system of its own, small enough to be filled."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from branchpoint_vmruntime.home import Home

# The base takes a quarter of a gigabyte, and so does the image of each checkpoint that is mapped.
DISK_MIB = 1536

Kind = Literal["ext4", "tmpfs"]


class NotMountedError(Exception):
    """Neither this user nor this host can mount one."""


class SmallDisk:
    """A home that can be filled to the brim and emptied again."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root, root / "run")
        self._filling = root / "filling"

    def fill(self, *, but_mib: int = 0) -> None:
        """Leave only so much free, whoever else is writing meanwhile."""
        self.free()
        with self._filling.open("wb") as file:
            for step in (64 << 20, 1 << 20, 4 << 10):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
            file.truncate(max(0, os.fstat(file.fileno()).st_size - (but_mib << 20)))

    def free(self) -> None:
        """Take the filling away."""
        self._filling.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """How much is free."""
        return shutil.disk_usage(self.home.root).free

    def half_made(self) -> list[Path]:
        """What an operation that ended early has left."""
        return [*self.home.layers.rglob("*.part"), *self.home.flat.rglob("*.part")]

    def images(self) -> list[Path]:
        """The memory images that are whole."""
        return list(self.home.flat.rglob("*.mem"))


@contextmanager
def small_disk(folder: Path, kind: Kind) -> Generator[SmallDisk]:
    """Mount one; NotMountedError if that cannot be."""
    root = folder / "home"
    root.mkdir()
    if kind == "tmpfs":
        options = f"size={DISK_MIB}m,mode=700"
        _run("mount", "-t", "tmpfs", "-o", options, "branchpoint", str(root))
    else:
        image = folder / "disk"
        with image.open("wb") as file:
            file.truncate(DISK_MIB << 20)
        _run("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(root))
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", root], check=True)


def _run(*command: str) -> None:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    environment = os.environ | {"PATH": path}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    except FileNotFoundError as error:
        raise NotMountedError(f"{command[0]} is not on this host") from error
    except subprocess.CalledProcessError as error:
        raise NotMountedError(f"{' '.join(command[:3])}: {error.stderr.strip()}") from error
