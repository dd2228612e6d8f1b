"""Unpacking package files into a root tree, as any user and without running anything of theirs."""

import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.command import run_command

# Nobody reads these in a guest; what they would take is a quarter of the image. Licences stay.
UNWANTED = (
    "usr/share/man/",
    "usr/share/info/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/doc/",
    "usr/share/doc-base/",
    "usr/share/menu/",
    "usr/share/bug/",
)
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def wanted(name: str) -> bool:
    """Whether a file of a package belongs in the image.

    >>> wanted("usr/share/doc/dash/changelog.gz"), wanted("usr/share/doc/dash/copyright")
    (False, True)
    """
    return name.endswith("/copyright") or not name.startswith(UNWANTED)


@dataclass(slots=True)
class Tree:
    """A root file system in the making. Paths are the guest's; symlinks never lead out of it."""

    root: Path
    _parents: dict[PurePosixPath, Path] = field(default_factory=dict[PurePosixPath, Path])

    @classmethod
    def create(cls, root: Path) -> "Tree":
        """A tree with Debian's merged /usr and nothing else."""
        root.mkdir(parents=True)
        for name in MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        return cls(root)

    def unpack(self, deb: Path) -> tuple[str, ...]:
        """Unpack a package's files; every path the package has, as dpkg lists them."""
        listed: list[str] = []
        for archive, member in _members(deb, "--fsys-tarfile"):
            name = member.name.removeprefix("./").strip("/")
            listed.append("/" + name if name not in {"", "."} else "/.")
            if name not in {"", "."} and wanted(name + "/" * member.isdir()):
                self._place(archive, member, name)
        return tuple(listed)

    def place_of(self, name: str) -> Path:
        """Where a path of the guest's lies, its parents' symlinks followed inside the tree."""
        path = PurePosixPath(name.strip("/"))
        return self._folder(path.parent) / path.name

    def _folder(self, path: PurePosixPath) -> Path:
        if path == PurePosixPath("."):
            return self.root
        known = self._parents.get(path)
        if known is None:
            known = self._follow(self._folder(path.parent) / path.name)
            self._parents[path] = known
        return known

    def _follow(self, place: Path) -> Path:
        if not place.is_symlink():
            place.mkdir(mode=0o755, exist_ok=True)
            return place
        target = place.readlink()
        if target.is_absolute():
            return self._folder(PurePosixPath(str(target).lstrip("/")))
        inside = os.path.normpath(place.parent.relative_to(self.root) / target)
        if inside.startswith(".."):
            raise ImageBuildError(f"{place} leads out of the tree")
        return self._folder(PurePosixPath(inside))

    def _place(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        place = self.place_of(name)
        if member.isdir():
            if not place.is_symlink():
                place.mkdir(exist_ok=True)
                place.chmod(member.mode & 0o7777)
            return
        place.unlink(missing_ok=True)
        if member.issym():
            place.symlink_to(member.linkname)
        elif member.islnk():
            os.link(self.place_of(member.linkname.removeprefix("./")), place)
        elif member.isreg():
            content = archive.extractfile(member) or io.BytesIO()
            with place.open("xb") as file:
                shutil.copyfileobj(content, file)
            place.chmod(member.mode & 0o7777)
        else:
            raise ImageBuildError(f"the package holds {name}, which is no file, folder or link")


def control_files(deb: Path) -> dict[str, bytes]:
    """A package's control files by name: control, md5sums, postinst and so on."""
    files: dict[str, bytes] = {}
    for archive, member in _members(deb, "--ctrl-tarfile"):
        content = archive.extractfile(member) if member.isreg() else None
        if content is not None:
            files[PurePosixPath(member.name).name] = content.read()
    return files


def _members(deb: Path, what: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    data = run_command(["dpkg-deb", what, deb], purpose=f"unpack {deb.name}")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            yield archive, member
