"""Writes a checkpoint, with the chain it needs, as one file that another home can take in.

Every file is opened before the first byte is written: what is removed meanwhile is still read.
"""

import contextlib
import errno
import hashlib
import os
import resource
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from branchpoint_vmruntime.errors import DamagedError, HostError, StorageError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import MANIFEST, GuestImage, open_image
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.lineage import (
    BranchState,
    Checkpoint,
    CheckpointKind,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import BAKED
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.memory.sparse import data_ranges
from branchpoint_vmruntime.register import MAIN
from branchpoint_vmruntime.storage.digests import DIGESTS, read_digests
from branchpoint_vmruntime.storage.new_file import new_file
from branchpoint_vmruntime.storage.package_format import (
    CarriedFile,
    CarriedImage,
    CarriedLayer,
    Package,
)
from branchpoint_vmruntime.storage.package_stream import Heard, PackageWriter
from branchpoint_vmruntime.storage.sizes import layer_of
from branchpoint_vmruntime.store import IMAGE, Layer

_IMAGE = "the image"
# What is said of a layer beside it, and made anew where it is taken in.
_LEFT_OUT = (DIGESTS, IMAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A file that was written: what it carries, its size and what its files hold, in bytes.

    `sha256` is of all of it but the last 32 bytes, which are that digest.
    """

    file: Path
    package: Package
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Open:
    """A file that is held open, what it is part of in words, what is said of it, where it is.

    Where it holds data is asked once. Room that was set aside is a hole until someone has read it:
    then it is data, by the page cache, though not a byte has changed.
    """

    fd: int
    of: str
    file: CarriedFile
    ranges: tuple[tuple[int, int], ...]


def newest_checkpoint(journal: Journal, session: SessionRecord) -> Checkpoint:
    """What the branch that a session was last continued as has saved last.

    UsageError if it has saved nothing.
    """
    branches = [b for b in journal.branches(session.id) if b.state is not BranchState.DROPPED]
    branches.sort(key=lambda branch: (branch.name != session.current, branch.name != "main"))
    for branch in branches:
        head = journal.checkpoint(branch.head)
        if head is not None and head.kind is not CheckpointKind.BASE:
            return head
    raise UsageError(
        f"session {session.id} ({session.key}) has saved nothing yet",
        hint="take a checkpoint first",
    )


def export_checkpoint(
    home: Home,
    session: SessionRecord,
    checkpoint: Checkpoint,
    file: Path,
    *,
    progress: Progress,
    with_image: bool = False,
) -> Exported:
    """Write the checkpoint and all it descends from to a new file, whole or not at all.

    The session may be open or closed. Reads and hashes every byte: not for the event loop's thread.
    UsageError if there is such a file already, DamagedError if what is read is not what was saved.
    """
    if os.path.lexists(file):
        raise UsageError(
            f"there is already a file {str(file)!r}", hint="name another, or remove it first"
        )
    if checkpoint.kind is CheckpointKind.BASE:
        raise UsageError(
            f"{checkpoint.label or checkpoint.id!r} is a base: a fresh machine, which every host"
            " makes by itself",
            hint="export a checkpoint that was taken since",
        )
    try:
        with ExitStack() as stack:
            package, opened = _opened(home, session, checkpoint, stack, with_image=with_image)
            return _write(package, opened, file, progress)
    except OSError as error:
        raise _in_words(error, file) from error


def image_of(home: Home, digest: str) -> GuestImage | None:
    """The image of that name here, if there is one."""
    folder = home.images / digest
    return open_image(folder) if (folder / MANIFEST).exists() else None


def _opened(
    home: Home,
    session: SessionRecord,
    checkpoint: Checkpoint,
    stack: ExitStack,
    *,
    with_image: bool,
) -> tuple[Package, list[_Open]]:
    _allow_many_files()
    with Journal.read(home.database) as journal:
        tree = Tree(journal.checkpoints(session.id))
        chain = list(reversed(tree.path(checkpoint.id)))
        carried = {each.id for each in chain}
        operations = [o for o in journal.operations(session.id) if o.checkpoint in carried]
        pins = sorted(journal.pins() & carried)
    # What a notebook has saved that continued a branch goes along as this session's own.
    owner = {c.id: session.id if c.session else None for c in chain}
    layers = [(replace(c, session=owner[c.id]), layer_of(home, c)) for c in chain]
    # First of all, so that nobody takes one away.
    held: list[list[tuple[str, int]]] = []
    for each, layer in layers:
        with _reading(_named(each)):
            held.append(_hold(stack, layer.folder, _names(layer, each)))
    facts = layers[-1][1].facts()
    with _reading(_IMAGE):
        image = image_of(home, facts.image)
    if image is None:
        raise HostError(
            f"the image {facts.image[:12]} that the checkpoint stands on is not here any more",
            hint="run `branchpoint setup`",
        )
    with _reading(_IMAGE):
        names = _image_names(image.folder) if with_image else []
        held_of_image = _hold(stack, image.folder, names)
    noted = [read_digests(layer) for _, layer in layers]
    opened = [
        [_described(c, name, fd, notes[name].sha256 if name in notes else None) for name, fd in f]
        for c, notes, f in zip(map(_named, chain), noted, held, strict=True)
    ]
    opened_of_image = [
        _described(_IMAGE, name, fd, image.manifest.sha256.get(name)) for name, fd in held_of_image
    ]
    package = Package(
        session=replace(session, start=session.start if session.start in carried else None),
        # What was baked is no branch's: where it is taken in, the first one carries on from it.
        branch=MAIN if checkpoint.branch == BAKED else checkpoint.branch,
        facts=facts,
        image=CarriedImage(
            digest=facts.image,
            sha256=image.bound_to,
            files=tuple(each.file for each in opened_of_image),
        ),
        layers=tuple(
            CarriedLayer(checkpoint=each, files=tuple(one.file for one in files))
            for (each, _), files in zip(layers, opened, strict=True)
        ),
        operations=tuple(operations),
        pins=tuple(pins),
    )
    return package, [*opened_of_image, *(each for files in opened for each in files)]


def _names(layer: Layer, checkpoint: Checkpoint) -> list[str]:
    try:
        return sorted(path.name for path in layer.folder.iterdir() if path.name not in _LEFT_OUT)
    except FileNotFoundError as error:
        raise DamagedError(
            f"checkpoint {checkpoint.label or checkpoint.id!r} is on record, and its files are not"
            f" there: {layer.folder}",
            hint="it may just have been removed; `branchpoint verify` tells what is damaged",
        ) from error


def _image_names(folder: Path) -> list[str]:
    """All that an image was made as; what was added since is made again where it is wanted."""
    made = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    names = [path.relative_to(folder).as_posix() for path in made]
    return sorted(n for n in names if not n.startswith((".", "initramfs-")))


def _hold(stack: ExitStack, folder: Path, names: Sequence[str]) -> list[tuple[str, int]]:
    held: list[tuple[str, int]] = []
    for name in names:
        fd = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        stack.callback(os.close, fd)
        held.append((name, fd))
    return held


def _named(checkpoint: Checkpoint) -> str:
    return f"checkpoint {checkpoint.label or checkpoint.id!r} ({checkpoint.id})"


@contextlib.contextmanager
def _reading(of: str, name: str = "it") -> Generator[None]:
    """An error while something is read says so: it is none of the file that is to be written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise HostError(
                f"{of} cannot be read: {error.strerror}",
                hint="allow this process more open files, or export an earlier checkpoint",
            ) from error
        what = Path(os.fsdecode(error.filename)).name if error.filename else name
        raise _damaged(of, f"{what} cannot be read: {error.strerror or error}") from error


def _damaged(of: str, what: object) -> DamagedError:
    return DamagedError(
        f"{of} is damaged: {what}",
        hint="`branchpoint verify` tells what is; export a checkpoint that does not need it",
    )


def _described(of: str, name: str, fd: int, sha256: str | None) -> _Open:
    with _reading(of, name):
        size = os.fstat(fd).st_size
        ranges = tuple(data_ranges(fd, size))
        data = sum(end - start for start, end in ranges)
        if sha256 is None:
            # Layers of before there were notes have none. Looking for data has moved the position.
            os.lseek(fd, 0, os.SEEK_SET)
            with open(fd, "rb", closefd=False) as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return _Open(fd, of, CarriedFile(name=name, size=size, data=data, sha256=sha256), ranges)


def _write(package: Package, opened: Sequence[_Open], file: Path, progress: Progress) -> Exported:
    total, done = max(1, package.data_bytes), 0

    def heard(count: int) -> None:
        nonlocal done
        done += count
        progress.advance(min(1.0, done / total))

    progress.step(f"{len(package.layers)} checkpoints, {total / 1e6:.0f} MB")
    with new_file(file) as target:
        writer = PackageWriter(target, package)
        for each in opened:
            _add(writer, each, heard)
        digest = writer.finish()
        size = target.tell()
    progress.done(f"{file}, {size / 1e6:.0f} MB")
    return Exported(file=file, package=package, bytes=size, sha256=digest)


def _add(writer: PackageWriter, each: _Open, heard: Heard) -> None:
    try:
        writer.add(each.fd, each.file, each.ranges, heard)
    except DamagedError as error:
        raise _damaged(each.of, error) from error


def _allow_many_files() -> None:
    """A long chain has more files than a process may have open unless it asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _in_words(error: OSError, file: Path) -> HostError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"the disk of {file} is full", hint="free some space there; nothing was written"
        )
    return StorageError(
        f"{file} could not be written: {error.strerror or error}",
        hint="nothing of it was kept; name a file in a folder that can be written",
    )
