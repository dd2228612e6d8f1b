"""What differs in this machine's files from its image, and which packages it has. A command.

    survey.py              print the survey
    survey.py --read PATH  print the content of one file, as far as READ_LIMIT

Either prints one line: a JSON object, packed by zlib and base64, since a command's output is kept
only up to a limit. File names that are not UTF-8 are there as Python's surrogate escapes.
"""

import base64
import ctypes
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

READ_LIMIT = 1 << 20
DIGEST_LIMIT = 64 << 20
ENTRY_LIMIT = 200_000
SKIPPED = ("/opt/branchpoint", "/run/branchpoint", "/run/lock")
_PLACE = Path("/run/branchpoint/survey")
_NEW_MOUNTS, _READ_ONLY, _RECURSIVE, _PRIVATE = 0x20000, 1, 0x4000, 0x40000
_DISKS = ((b"/dev/vda", "image", _READ_ONLY), (b"/dev/vdb", "disk", 0))
_OPAQUE = "trusted.overlay.opaque"
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class Entry(NamedTuple):
    """One path that is not as in the image.

    `kind` is one of file, dir, link, fifo, socket, device, removed; `digest` is empty where only
    size and time tell; `in_image` says whether the image has something of that name.
    """

    path: str
    kind: str
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    digest: str = ""
    in_image: bool = False


def main(arguments: list[str]) -> None:
    """Print what was asked for."""
    reads = arguments[:1] == ["--read"]
    answer = read_file(Path("/root", arguments[1])) if reads else survey()
    packed = zlib.compress(json.dumps(answer, separators=(",", ":")).encode(), 1)
    sys.stdout.write(base64.b64encode(packed).decode() + "\n")


def survey() -> dict[str, Any]:
    """The whole survey, as JSON has it."""
    places = list(memory_mounts(_text(Path("/proc/self/mountinfo"))))
    image, disk = _mount_disks()
    files: list[Entry] = []
    left_out = 0
    for entry in _everything(image, disk, places):
        if len(files) < ENTRY_LIMIT:
            files.append(entry)
        else:
            left_out += 1
    return {
        "files": files,
        "left_out": left_out,
        "packages": {
            "python": python_packages(_python_paths()),
            "debian": debian_packages(_text(Path("/var/lib/dpkg/status"))),
        },
    }


def layer_entries(upper: str, image: str) -> Iterator[Entry]:
    """What an overlay's upper folder makes of the image under it."""
    waiting = [_Folder("", in_image=True, opaque=False)]
    while waiting:
        folder = waiting.pop()
        names = _names(upper + folder.path)
        for name in names:
            path = f"{folder.path}/{name}"
            here = None if path in SKIPPED else _look(upper + path)
            below = _look(image + path) if folder.in_image else None
            if here is None:
                continue
            yield from _difference(path, here, below)
            if here.kind == "dir":
                merged = below is not None and below.kind == "dir"
                hides = folder.opaque or (merged and _is_opaque(upper + path))
                waiting.append(_Folder(path, in_image=merged, opaque=hides))
        if folder.opaque and folder.in_image:
            for name in sorted(set(_names(image + folder.path)) - set(names)):
                yield Entry(f"{folder.path}/{name}", "removed", in_image=True)


def memory_entries(root: str) -> Iterator[Entry]:
    """Everything on a file system that lives in memory."""
    device = Path(root).stat().st_dev
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        for name in _names(folder):
            path = f"{folder}/{name}"
            found = None if path in SKIPPED else _look(path)
            if found is None or (found.kind == "dir" and Path(path).lstat().st_dev != device):
                continue
            yield found.entry(path, in_image=False)
            if found.kind == "dir":
                waiting.append(path)


def memory_mounts(mountinfo: str) -> Iterator[str]:
    """Where file systems in memory are mounted, of those that hold what users write."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), left.split()[4])
        if right.split()[0] in ("tmpfs", "ramfs") and place not in SKIPPED:
            yield place


def python_packages(folders: list[Path]) -> dict[str, str]:
    """Version by name of what is installed for Python; the first folder that has a name wins."""
    found: dict[str, str] = {}
    for folder in folders:
        for entry in sorted(folder.glob("*.dist-info")):
            name, _, version = entry.name.removesuffix(".dist-info").rpartition("-")
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return found


def debian_packages(status: str) -> dict[str, str]:
    """Version by name of what dpkg's status says is installed."""
    found: dict[str, str] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields.get("Version", "")
    return found


def read_file(path: Path) -> dict[str, Any]:
    """One file's content, its first READ_LIMIT bytes; `kind` is empty if there is no such file."""
    try:
        facts = path.stat()
        content = b""
        if stat.S_ISREG(facts.st_mode):
            with path.open("rb") as file:
                content = file.read(READ_LIMIT)
    except OSError:
        return {"kind": "", "size": 0, "content": ""}
    kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "device")
    return {"kind": kind, "size": facts.st_size, "content": base64.b64encode(content).decode()}


class _Folder(NamedTuple):
    """A folder of the upper layer to be looked into.

    `in_image` says whether the image has it too, `opaque` whether it hides what the image has.
    """

    path: str
    in_image: bool
    opaque: bool


class _Found(NamedTuple):
    """What was found at a real path."""

    real: str
    facts: os.stat_result

    @property
    def kind(self) -> str:
        return _KINDS.get(stat.S_IFMT(self.facts.st_mode), "device")

    @property
    def hides(self) -> bool:
        """Whether it is an overlay's mark for what was removed."""
        return stat.S_ISCHR(self.facts.st_mode) and self.facts.st_rdev == 0

    def entry(self, path: str, *, in_image: bool) -> Entry:
        facts = self.facts
        mode, digest = stat.S_IMODE(facts.st_mode), self.digest()
        return Entry(path, self.kind, mode, facts.st_size, facts.st_mtime_ns, digest, in_image)

    def digest(self) -> str:
        """Of a file's bytes or a link's target; empty for what has none, or is too large."""
        made = blake2b(digest_size=12)
        try:
            if self.kind == "link":
                made.update(os.fsencode(Path(self.real).readlink()))
                return made.hexdigest()
            if self.kind != "file" or self.facts.st_size > DIGEST_LIMIT:
                return ""
            with Path(self.real).open("rb", buffering=0) as file:
                while block := file.read(1 << 20):
                    made.update(block)
        except OSError:
            return ""
        return made.hexdigest()


def _difference(path: str, here: _Found, below: _Found | None) -> Iterator[Entry]:
    """At most one entry: an overlay holds copies of what was only touched, too."""
    if here.hides:
        if below is not None:
            yield Entry(path, "removed", in_image=True)
        return
    entry = here.entry(path, in_image=below is not None)
    if below is None or not _is_same(entry, below.entry(path, in_image=True)):
        yield entry


def _is_same(here: Entry, below: Entry) -> bool:
    if (here.kind, here.mode) != (below.kind, below.mode):
        return False
    if here.kind == "dir":
        return True
    if here.digest and below.digest:
        return here.digest == below.digest
    return (here.size, here.mtime_ns) == (below.size, below.mtime_ns)


def _look(path: str) -> _Found | None:
    try:
        return _Found(path, Path(path).lstat())
    except OSError:
        return None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 (names, not paths, and by the thousand)
    except OSError:
        return []


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _everything(image: str, disk: str, places: list[str]) -> Iterator[Entry]:
    yield from layer_entries(f"{disk}/upper", image)
    for place in places:
        yield from memory_entries(place)


def _mount_disks() -> list[str]:
    """Mount both disks once more, where only this process sees them: the root hides what is what.

    The kernel gives the file systems that are mounted already, so all that was written is there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEW_MOUNTS))
    _check(libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None))
    mounted: list[str] = []
    for device, name, flags in _DISKS:
        place = _PLACE / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(libc.mount(device, os.fsencode(place), b"ext4", flags, None))
        mounted.append(str(place))
    return mounted


def _check(failed: int) -> None:
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _python_paths() -> list[Path]:
    # Not at the top: a Python started without site, as this one is, imports it only on demand.
    import site  # noqa: PLC0415

    return [Path(site.getusersitepackages()), *map(Path, site.getsitepackages())]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1:])
