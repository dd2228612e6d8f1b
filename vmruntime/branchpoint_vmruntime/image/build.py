"""Making a guest image of a recipe, and its initramfs: whole or not at all, and only once."""

import fcntl
import hashlib
import math
import os
import shutil
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError, StorageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host import free_bytes
from branchpoint_vmruntime.image.apt import PrivateApt, open_apt
from branchpoint_vmruntime.image.bytecode import compile_modules, prune_python, write_font_list
from branchpoint_vmruntime.image.configure import configure_tree
from branchpoint_vmruntime.image.disks import make_disk_template, make_overlay_template
from branchpoint_vmruntime.image.dpkg import UnpackedPackage, write_database
from branchpoint_vmruntime.image.ext4 import make_ext4
from branchpoint_vmruntime.image.guest_image import (
    DISK,
    KERNEL,
    OVERLAY,
    PROBE,
    ROOT,
    open_image,
    write_manifest,
)
from branchpoint_vmruntime.image.guest_image import GuestImage as GuestImage
from branchpoint_vmruntime.image.guest_image import find_image as find_image
from branchpoint_vmruntime.image.initramfs import pack_initramfs, pack_probe
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.image.resolving import explained_apt, explained_fetch, resolve_wheels
from branchpoint_vmruntime.image.tree import Tree, control_files
from branchpoint_vmruntime.image.wheels import check_wheels, install_wheels
from branchpoint_vmruntime.tools import Tools

KERNEL_TREE = "kernel"
BUSYBOX = "busybox"
ROOT_INODE_BYTES = 16384
# While it is made: packages, tree, wheels and disks side by side.
NEEDED_MIB = 2048
# Beyond what is in it a root is to have some room for its own tables, and to be whole hundreds.
ROOM_IN_ROOT = 1.15
ROOT_STEP_MIB = 256


@dataclass(frozen=True, slots=True)
class Initramfs:
    """The first file system of a guest, named by the digest of its bytes."""

    path: Path
    digest: str


def ensure_image(home: Home, recipe: Recipe, tools: Tools, progress: Progress) -> GuestImage:
    """The recipe's image, made now if need be; ImageBuildError leaves nothing of it."""
    found = find_image(home, recipe)
    if found is not None:
        return found
    with _only_one_build(home, progress):
        return find_image(home, recipe) or _build_image(home, recipe, tools, progress)


@contextmanager
def _only_one_build(home: Home, progress: Progress) -> Generator[None]:
    """Two set-ups at once would do the same work twice, and stand in each other's way."""
    with (home.images / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step("waiting for another image that is being built")
            fcntl.flock(lock, fcntl.LOCK_EX)
            progress.done("its turn")
        yield


def _build_image(home: Home, recipe: Recipe, tools: Tools, progress: Progress) -> GuestImage:
    free_mib = free_bytes(home.images) >> 20
    if free_mib < NEEDED_MIB:
        raise StorageError(
            f"the guest image takes {NEEDED_MIB} MiB to make; {home.root} has {free_mib} left",
            hint="free some, or name a roomier folder in BRANCHPOINT_HOME",
        )
    # Whoever builds is alone: what else is there was left by one that was killed.
    for stale in home.images.glob(".*.*"):
        _discard(stale)
    work = home.images / f".{recipe.digest}.{os.getpid()}"
    work.mkdir()
    try:
        built = _ImageBuild(home, recipe, tools, progress, work).build()
        final = home.images / recipe.digest
        _discard(final)
        _sync(built)
        built.rename(final)
    except OSError as error:
        raise ImageBuildError(
            f"the guest image could not be written: {error}",
            hint=f"make {home.root} writable, or name another folder in BRANCHPOINT_HOME",
        ) from error
    finally:
        _discard(work)
    return open_image(final)


def ensure_initramfs(image: GuestImage, guest_sources: Sequence[Path]) -> Initramfs:
    """The initramfs with these guest packages; new guest code makes a new one and no new image."""
    archive = pack_initramfs(image.folder / KERNEL_TREE, image.folder / BUSYBOX, guest_sources)
    digest = hashlib.sha256(archive).hexdigest()
    path = image.folder / f"initramfs-{digest[:32]}.cpio"
    if not path.exists():
        part = image.folder / f".{path.name}.{os.getpid()}"
        part.write_bytes(archive)
        part.replace(path)
    return Initramfs(path, digest)


@dataclass(frozen=True, slots=True)
class _ImageBuild:
    """One build in a folder that is thrown away unless it succeeds."""

    home: Home
    recipe: Recipe
    tools: Tools
    progress: Progress
    work: Path

    def build(self) -> Path:
        more = self._more_wheels()
        self.progress.step("Debian packages")
        apt, mirrors = open_apt(self.home.cache / f"apt-{self.recipe.suite}", self.recipe.suite)
        beyond = self._beyond(apt)
        wanted = (*self.recipe.packages, *self.recipe.debian)
        debs = apt.download(wanted, advance=self.progress.advance)
        self.progress.done(f"{len(debs)} packages of Debian {self.recipe.suite}")
        self.out.mkdir()
        versions = self._root_tree(debs, mirrors.sources_in_guest(self.recipe.suite), beyond)
        versions |= self._kernel(apt)
        self._python(more)
        self._pack()
        write_manifest(self.out, self.recipe, versions, more)
        apt.tidy(debs)
        return self.out

    @property
    def out(self) -> Path:
        return self.work / "image"

    @property
    def tree(self) -> Path:
        return self.work / "tree"

    def _more_wheels(self) -> tuple[str, ...]:
        """What the manifest's Python packages come to; first of all, since names may be wrong."""
        if not self.recipe.python:
            return ()
        self.progress.step("Python packages of the manifest")
        scratch = self.work / "resolving"
        scratch.mkdir()
        found = resolve_wheels(self.recipe.python, self.recipe.wheels, scratch)
        self.progress.done(", ".join(line.split()[0] for line in found) or "all there already")
        return found

    def _beyond(self, apt: PrivateApt) -> frozenset[str]:
        """The names of the Debian packages that other images have not."""
        if not self.recipe.debian:
            return frozenset()
        try:
            asked = apt.resolve([*self.recipe.packages, *self.recipe.debian])
        except ImageBuildError as error:
            raise explained_apt(error) from error
        everyday = {deb.name for deb in apt.resolve(self.recipe.packages)}
        return frozenset(deb.name for deb in asked if deb.name not in everyday)

    def _root_tree(
        self, debs: Sequence[Path], sources: str, beyond: Collection[str]
    ) -> dict[str, str]:
        self.progress.step("root file system")
        tree = Tree.create(self.tree)
        packages: list[UnpackedPackage] = []
        for index, deb in enumerate(debs):
            control = control_files(deb)
            packages.append(UnpackedPackage(control, tree.unpack(deb)))
            self.progress.advance((index + 1) / len(debs))
        write_database(self.tree, packages, unconfigured=beyond)
        configure_tree(self.tree, sources)
        self.progress.done(f"{len(packages)} packages unpacked")
        return {package.name: package.field("Version") for package in packages}

    def _kernel(self, apt: PrivateApt) -> dict[str, str]:
        """The kernel as it is shipped, its modules, and a busybox, out of two packages."""
        self.progress.step("guest kernel")
        name = next(
            deb.name
            for deb in apt.resolve([self.recipe.kernel_package])
            if deb.name.startswith("linux-image-") and deb.name[12:13].isdigit()
        )
        versions: dict[str, str] = {}
        kernel_tree = Tree.create(self.work / KERNEL_TREE)
        for package in (name, self.recipe.initramfs_package):
            deb = apt.download_only(package)
            kernel_tree.unpack(deb)
            shipped = UnpackedPackage(control_files(deb), ())
            versions[shipped.name] = shipped.field("Version")
        (image,) = (kernel_tree.root / "boot").glob("vmlinuz-*")
        shutil.copyfile(image, self.out / KERNEL)
        shutil.copyfile(kernel_tree.root / "usr/bin/busybox", self.out / BUSYBOX)
        modules = self.out / KERNEL_TREE / "lib/modules"
        shutil.copytree(kernel_tree.root / "usr/lib/modules", modules, symlinks=True)
        (self.out / PROBE).write_bytes(pack_probe(self.out / BUSYBOX))
        self.progress.done(name)
        return versions

    def _python(self, more: Sequence[str]) -> None:
        self.progress.step("Python packages")
        scratch = self.work / "wheels"
        scratch.mkdir()
        wheels = [*self.recipe.wheels, *more]
        try:
            install_wheels(self.tree, wheels, scratch)
        except ImageBuildError as error:
            raise explained_fetch(error) from error
        if more:
            check_wheels(self.tree)
        prune_python(self.tree)
        self.progress.advance(0.5)
        write_font_list(self.tree)
        compile_modules(self.tree)
        self.progress.done(f"{len(wheels)} packages, byte-compiled")

    def _pack(self) -> None:
        self.progress.step("disks")
        make_ext4(
            self.tools.mke2fs, self.out / ROOT,
            size_mib=self._root_mib(), inode_bytes=ROOT_INODE_BYTES, folder=self.tree,
        )  # fmt: skip
        (self.out / ROOT).chmod(0o444)
        size_mib = self.recipe.disk_mib
        make_disk_template(
            self.tools.qemu_img, self.tools.mke2fs, self.out / DISK, size_mib=size_mib
        )
        make_overlay_template(self.tools.qemu_img, self.out / OVERLAY, size_mib=size_mib)
        used = (self.out / ROOT).stat().st_blocks * 512
        self.progress.done(f"{used >> 20} MiB")

    def _root_mib(self) -> int:
        if not (self.recipe.python or self.recipe.debian):
            return self.recipe.root_mib
        steps = ROOM_IN_ROOT * (tree_bytes(self.tree) >> 20) / ROOT_STEP_MIB
        return max(self.recipe.root_mib, ROOT_STEP_MIB * math.ceil(steps))


def tree_bytes(folder: Path) -> int:
    """What the files of a tree take in blocks of 4 KiB, each with an inode of its own."""
    sizes = (
        (Path(parent) / name).lstat().st_size
        for parent, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )
    return sum((size + 4095) // 4096 * 4096 + 256 for size in sizes)


def _sync(folder: Path) -> None:
    """Have the disk hold the files before their name says that they are whole."""
    for path in folder.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _discard(folder: Path) -> None:
    """Delete a tree in which folders may be closed to their owner."""

    def open_up(_function: object, path: str, _error: object) -> None:
        Path(path).parent.chmod(0o700)
        Path(path).unlink(missing_ok=True)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)
