"""Making a guest image of a recipe, and its initramfs: whole or not at all, and only once."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Generator, Sequence
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
from branchpoint_vmruntime.image.tree import Tree, control_files
from branchpoint_vmruntime.image.wheels import install_wheels
from branchpoint_vmruntime.tools import Tools

KERNEL_TREE = "kernel"
BUSYBOX = "busybox"
ROOT_INODE_BYTES = 16384
# While it is made: packages, tree, wheels and disks side by side.
NEEDED_MIB = 2048


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
    with _only_one_build(home):
        return find_image(home, recipe) or _build_image(home, recipe, tools, progress)


@contextmanager
def _only_one_build(home: Home) -> Generator[None]:
    """Two set-ups at once would do the same work twice, and stand in each other's way."""
    with (home.images / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_image(home: Home, recipe: Recipe, tools: Tools, progress: Progress) -> GuestImage:
    free_mib = free_bytes(home.images) >> 20
    if free_mib < NEEDED_MIB:
        raise StorageError(
            f"the guest image takes {NEEDED_MIB} MiB to make; {home.root} has {free_mib} left",
            hint="free some, or name a roomier folder in BRANCHPOINT_HOME",
        )
    for stale in home.images.glob(f".{recipe.digest}.*"):
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


def ensure_initramfs(home: Home, image: GuestImage, guest_sources: Sequence[Path]) -> Initramfs:
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
        self.progress.step("Debian packages")
        apt, mirrors = open_apt(self.home.cache / f"apt-{self.recipe.suite}", self.recipe.suite)
        debs = apt.download(self.recipe.packages, advance=self.progress.advance)
        self.progress.done(f"{len(debs)} packages of Debian {self.recipe.suite}")
        self.out.mkdir()
        versions = self._root_tree(debs, mirrors.sources_in_guest(self.recipe.suite))
        versions |= self._kernel(apt)
        self._python()
        self._pack()
        write_manifest(self.out, self.recipe, versions)
        shutil.rmtree(apt.folder)
        return self.out

    @property
    def out(self) -> Path:
        return self.work / "image"

    @property
    def tree(self) -> Path:
        return self.work / "tree"

    def _root_tree(self, debs: Sequence[Path], sources: str) -> dict[str, str]:
        self.progress.step("root file system")
        tree = Tree.create(self.tree)
        packages: list[UnpackedPackage] = []
        for index, deb in enumerate(debs):
            control = control_files(deb)
            packages.append(UnpackedPackage(control, tree.unpack(deb)))
            self.progress.advance((index + 1) / len(debs))
        write_database(self.tree, packages)
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

    def _python(self) -> None:
        self.progress.step("Python packages")
        scratch = self.work / "wheels"
        scratch.mkdir()
        install_wheels(self.tree, self.recipe.wheels, scratch)
        prune_python(self.tree)
        self.progress.advance(0.5)
        write_font_list(self.tree)
        compile_modules(self.tree)
        self.progress.done(f"{len(self.recipe.wheels)} packages, byte-compiled")

    def _pack(self) -> None:
        self.progress.step("disks")
        make_ext4(
            self.tools.mke2fs, self.out / ROOT,
            size_mib=self.recipe.root_mib, inode_bytes=ROOT_INODE_BYTES, folder=self.tree,
        )  # fmt: skip
        (self.out / ROOT).chmod(0o444)
        size_mib = self.recipe.disk_mib
        make_disk_template(
            self.tools.qemu_img, self.tools.mke2fs, self.out / DISK, size_mib=size_mib
        )
        make_overlay_template(self.tools.qemu_img, self.out / OVERLAY, size_mib=size_mib)
        used = (self.out / ROOT).stat().st_blocks * 512
        self.progress.done(f"{used >> 20} MiB")


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
