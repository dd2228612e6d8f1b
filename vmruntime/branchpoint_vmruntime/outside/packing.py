"""Which files of a folder are brought into a machine, and the archive they travel in."""

import errno
import glob
import os
import stat
import tarfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from branchpoint_vmruntime.errors import TransferError, UsageError
from branchpoint_vmruntime.outside.pieces import PIECE_BYTES

_EXAMPLES = 3
_HIDDEN = "hidden or made by Python"
_STRAY = "links that lead nowhere, or out of the folder"
_WITHHELD = "secrets are read from them"
_UNREADABLE = "not readable"
_NO_FILE = "neither file, folder nor link"
_NO_MATCH = "nothing matches"

FileId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was not brought in for one reason: how many, and the first few by name."""

    why: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.examples) else ""
        return f"{self.count} left out ({self.why}): {', '.join(self.examples)}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What patterns come to in a folder. Names are relative to it, folders before what is in them.

    `files` of the names are no folders.
    """

    folder: Path
    names: tuple[str, ...]
    files: int
    size_bytes: int
    left_out: tuple[LeftOut, ...]


def choose(folder: Path, patterns: Sequence[str], withheld: Collection[FileId] = ()) -> Choice:
    """Find what the patterns name; `.` is all of the folder. UsageError if one is no pattern.

    In a folder hidden files, caches and virtual environments are left out, unless a pattern names
    them. Links stay links; those out of the folder are left out.
    """
    chooser = _Chooser(Path(os.path.realpath(folder)), withheld)
    for pattern in patterns:
        chooser.take_pattern(pattern)
    return chooser.choice()


def pack(choice: Choice) -> Iterator[bytes]:
    """The chosen files as a tar archive, in pieces. TransferError if one changes meanwhile."""
    piece = bytearray()
    for part in _archive(choice):
        piece += part
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + bytes(2 * tarfile.BLOCKSIZE)


def file_id(facts: os.stat_result) -> FileId:
    """What tells a file from all others, whatever it is called."""
    return facts.st_dev, facts.st_ino


class _Chooser:
    def __init__(self, folder: Path, withheld: Collection[FileId]) -> None:
        self._folder = folder
        self._withheld = withheld
        self._found: dict[str, os.stat_result] = {}
        self._left: dict[str, list[str]] = {}

    def take_pattern(self, pattern: str) -> None:
        parts = PurePosixPath(pattern)
        if not pattern or "\0" in pattern or parts.is_absolute() or ".." in parts.parts:
            raise UsageError(
                f"{pattern!r} names no files of the notebook's folder",
                hint='write it relative to the folder and without "..", such as data/*.csv',
            )
        if not parts.parts:
            self._take_all_in("")
            return
        # Unlike `Path.glob`, hides what is hidden from `*`.
        matches = sorted(glob.iglob(pattern, root_dir=self._folder, recursive=True))  # noqa: PTH207
        for match in matches:
            self._take(str(PurePosixPath(match)))
        if not matches:
            self._leave(pattern, _NO_MATCH)

    def choice(self) -> Choice:
        links = {name for name, facts in self._found.items() if stat.S_ISLNK(facts.st_mode)}
        # What lies behind a link that comes in as a link is there under its own name.
        names = sorted(
            name for name in self._found if links.isdisjoint(map(str, PurePosixPath(name).parents))
        )
        sizes = [
            self._found[name].st_size if name not in links else 0
            for name in names
            if not stat.S_ISDIR(self._found[name].st_mode)
        ]
        return Choice(
            folder=self._folder,
            names=tuple(names),
            files=len(sizes),
            size_bytes=sum(sizes),
            left_out=tuple(
                LeftOut(why, len(names), tuple(map(_shown, names[:_EXAMPLES])))
                for why, names in self._left.items()
            ),
        )

    def _take_all_in(self, folder: str) -> None:
        try:
            names = sorted(os.listdir(self._folder / folder))  # noqa: PTH208 (names, not paths)
        except OSError:
            self._leave(folder or ".", _UNREADABLE)
            return
        for name in names:
            path = f"{folder}/{name}" if folder else name
            if _is_made_or_hidden(self._folder / path):
                self._leave(path, _HIDDEN)
            else:
                self._take(path)

    def _take(self, name: str) -> None:
        if name in self._found:
            return
        path = self._folder / name
        try:
            facts = path.lstat()
        except OSError:
            self._leave(name, _UNREADABLE)
            return
        if why := self._why_not(path, facts):
            self._leave(name, why)
            return
        self._found[name] = facts
        if stat.S_ISDIR(facts.st_mode):
            self._take_all_in(name)

    def _why_not(self, path: Path, facts: os.stat_result) -> str:
        if not _is_in(path.parent, self._folder):
            return _STRAY
        if stat.S_ISLNK(facts.st_mode):
            return "" if path.exists() and _is_in(path, self._folder) else _STRAY
        if stat.S_ISDIR(facts.st_mode):
            return ""
        if not stat.S_ISREG(facts.st_mode):
            return _NO_FILE
        if file_id(facts) in self._withheld:
            return _WITHHELD
        return "" if os.access(path, os.R_OK) else _UNREADABLE

    def _leave(self, name: str, why: str) -> None:
        names = self._left.setdefault(why, [])
        if name not in names[:_EXAMPLES]:
            names.append(name)


def _is_made_or_hidden(path: Path) -> bool:
    return (
        path.name.startswith(".") or path.name == "__pycache__" or (path / "pyvenv.cfg").is_file()
    )


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(folder)


def _archive(choice: Choice) -> Iterator[bytes]:
    for name in choice.names:
        path = choice.folder / name
        entry = tarfile.TarInfo(name)
        try:
            facts = path.lstat()
            entry.mode, entry.mtime = facts.st_mode & 0o777, int(facts.st_mtime)
            if stat.S_ISREG(facts.st_mode):
                yield from _file(entry, path)
            elif stat.S_ISDIR(facts.st_mode):
                entry.type = tarfile.DIRTYPE
                yield _header(entry)
            elif stat.S_ISLNK(facts.st_mode):
                entry.type = tarfile.SYMTYPE
                entry.linkname = os.path.relpath(os.path.realpath(path), path.parent)
                yield _header(entry)
        except FileNotFoundError:
            # It was removed meanwhile, as an editor's temporary files are.
            continue
        except OSError as error:
            raise TransferError(f"{_shown(name)}: {error.strerror}") from error


def _file(entry: tarfile.TarInfo, path: Path) -> Iterator[bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb", buffering=0) as file:
        entry.size = left = os.fstat(fd).st_size
        yield _header(entry)
        while left:
            piece = file.read(min(left, PIECE_BYTES))
            if not piece:
                raise OSError(errno.EIO, "it was changed while it was read")
            left -= len(piece)
            yield piece
        yield bytes(-entry.size % tarfile.BLOCKSIZE)


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")
