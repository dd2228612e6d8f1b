"""Files into a machine and out of it: whole, or not at all."""

import errno
import os
import shutil
import stat
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath
from typing import IO

from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    MachineEndedError,
    StreamResetError,
    TransferError,
    UsageError,
)
from branchpoint_vmruntime.outside.packing import FileId, LeftOut, choose, file_id, pack
from branchpoint_vmruntime.outside.pieces import (
    PIECE_BYTES,
    Incoming,
    Progress,
    in_thread,
    send_contents,
)
from branchpoint_vmruntime.outside.sources import stamp
from branchpoint_vmruntime.storage.new_file import new_file
from branchpoint_vmruntime.streams import Stream, StreamChannel

# Beside a notebook it says what may leave the machine, and which of the host's secrets are used.
MANIFEST = "branchpoint.yaml"
# What code in a machine brings out must leave so much of the host's disk free.
_SPARE_BYTES = 1 << 30
_CODE = frozenset({*all_suffixes(), ".pth"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What was brought in or out, and where it is now.

    `digest` is its MD5; of a folder that of the archive it came in.
    """

    path: str
    size_bytes: int
    digest: str
    seconds: float
    files: int = 1
    left_out: tuple[LeftOut, ...] = ()


class Transfers:
    """Files in and out of the machines of one session.

    `withheld` tells which files never enter a machine: those that secrets are read from.
    """

    def __init__(self, withheld: Callable[[], Iterable[Path]] = tuple[Path]) -> None:
        self._withheld = withheld

    async def put(
        self,
        channel: StreamChannel,
        source: Path,
        target: str = "",
        *,
        progress: Progress | None = None,
        within: Path | None = None,
    ) -> Transferred:
        """Bring a file in. It is in its place only once it is whole.

        A relative target is below the guest's home; in a folder, or with a slash at its end, the
        file keeps its name. `within` is the host's folder it must come from. UsageError,
        TransferError.
        """
        started = time.monotonic()
        name = source.name
        source = confined(source, within) if within else source
        _require_paths(target, name)
        with _telling(f"{source} was not brought in"), _source(source) as file:
            facts = os.fstat(file.fileno())
            if file_id(facts) in self._withheld_ids():
                raise UsageError(f"{source} is not brought in: a secret is read from it")
            purpose = (target, str(facts.st_size), f"{facts.st_mode & 0o777:o}", name)
            async with _opened(channel, "put", *purpose) as stream:
                pieces = _unchanged(file, facts)
                sent = await send_contents(stream, pieces, facts.st_size, progress)
        return Transferred(
            path=sent.path,
            size_bytes=facts.st_size,
            digest=sent.digest,
            seconds=time.monotonic() - started,
        )

    async def get(
        self,
        channel: StreamChannel,
        source: str,
        target: Path,
        *,
        progress: Progress | None = None,
        within: Path | None = None,
    ) -> Transferred:
        """Bring a file out. It is in its place only once it is whole.

        In a folder the file keeps its name. A file that is there is replaced, and so is a link.
        `within` is the host's folder that it must end in. UsageError, TransferError.
        """
        started = time.monotonic()
        _require_paths(source)
        target = _target(target, PurePosixPath(source).name)
        before = None
        if within:
            target = confined(target, within)
            _require_no_code(target)
            before = stamp(target)
        with _telling(f"{source} was not brought out"):
            async with _opened(channel, "get", source) as stream:
                incoming = Incoming(stream)
                size = await incoming.size()
                _require_room(target.parent, size, spare=_SPARE_BYTES if within else 0)
                with new_file(target, mode=0o666, replaces=True) as file:
                    digest = await incoming.copy(file.write, progress)
                    await in_thread(_sync, file)
                    if within and stamp(target) != before:
                        raise TransferError(f"{target} has changed meanwhile")
        return Transferred(
            path=str(target), size_bytes=size, digest=digest, seconds=time.monotonic() - started
        )

    async def unpack(
        self,
        channel: StreamChannel,
        folder: Path,
        patterns: Sequence[str],
        target: str = "",
        *,
        progress: Progress | None = None,
    ) -> Transferred:
        """Bring in what patterns name in a folder of the host's; see `choose` for what they mean.

        Each file is in its place only once it is whole; those before a failure stay. UsageError,
        TransferError.
        """
        started = time.monotonic()
        _require_paths(target)
        choice = await in_thread(choose, folder, patterns, self._withheld_ids())
        path, digest = target, ""
        if choice.names:
            with _telling(f"the files of {folder} were not all brought in"):
                async with _opened(channel, "unpack", target, str(choice.size_bytes)) as stream:
                    sent = await send_contents(stream, pack(choice), choice.size_bytes, progress)
            path, digest = sent.path, sent.digest
        return Transferred(
            path=path,
            size_bytes=choice.size_bytes,
            digest=digest,
            seconds=time.monotonic() - started,
            files=choice.files,
            left_out=choice.left_out,
        )

    def _withheld_ids(self) -> frozenset[FileId]:
        found: set[FileId] = set()
        for path in self._withheld():
            with suppress(OSError, RuntimeError):
                found.add(file_id(path.expanduser().stat()))
        return frozenset(found)


def confined(path: Path, folder: Path) -> Path:
    """Where a path leads, which code inside a machine has given: it is relative to the folder.

    UsageError if that is outside the folder, by links as well, or is something that the host acts
    upon: hidden, such as `.git`, or the manifest.
    """
    try:
        root = Path(os.path.realpath(folder))
        place = Path(os.path.realpath(root / path))
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is no path: {error}") from error
    hint = "a cell of the notebook may, with the magic at its top level"
    if not place.is_relative_to(root):
        raise UsageError(f"{path} is outside the notebook's folder {root}", hint=hint)
    parts = place.relative_to(root).parts
    if MANIFEST in parts or any(part.startswith(".") for part in parts):
        raise UsageError(f"code inside a machine may not touch {path}", hint=hint)
    return place


@asynccontextmanager
async def _opened(channel: StreamChannel, *purpose: str) -> AsyncGenerator[Stream]:
    stream = await channel.open(*purpose)
    try:
        yield stream
    finally:
        await stream.close()


@contextmanager
def _telling(what: str) -> Generator[None]:
    """Say what was being done, of an error that only says why not."""
    try:
        yield
    except (MachineEndedError, StreamResetError) as error:
        raise TransferError(
            f"{what}: it was cut off, as {error}", hint="try again once the machine runs"
        ) from error
    except (GuestRefusedError, TransferError) as error:
        raise TransferError(f"{what}: {error}", hint=error.hint) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the host's disk is full" if full else error.strerror
        raise TransferError(f"{what}: {why}") from error


def _require_paths(*paths: str) -> None:
    for path in paths:
        if "\0" in path or any(0xD800 <= ord(character) < 0xE000 for character in path):
            raise UsageError(f"{path!r} is no path that both sides can write: it is not UTF-8")


@contextmanager
def _source(path: Path) -> Generator[IO[bytes]]:
    # A named pipe would wait here for somebody to write to it.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path} on the host") from error
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise UsageError(
                f"{path} is a folder", hint="pack it first, or name it in the manifest's `files`"
            )
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is a device, a pipe or a socket, not a file")
        with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(fd)


def _unchanged(file: IO[bytes], before: os.stat_result) -> Iterator[bytes]:
    left = before.st_size
    while left and (piece := file.read(min(left, PIECE_BYTES))):
        left -= len(piece)
        yield piece
    after = os.fstat(file.fileno())
    if left or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise TransferError("it was changed while it was read")


def _target(path: Path, name: str) -> Path:
    """Where a file comes to be; UsageError if it cannot be there."""
    target = path / name if path.is_dir() else path
    if not name or target.is_dir():
        raise UsageError(f"{target} is a folder", hint="name a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent} on the host")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is a device, a pipe or a socket, not a file")
    return target


def _require_no_code(target: Path) -> None:
    """Any Python that starts in the folder, such as another notebook's, imports what is there."""
    if target.suffix in _CODE:
        raise UsageError(
            f"code inside a machine does not bring out {target.name}: the host might run it",
            hint="a cell of the notebook may, with %get at its top level",
        )


def _require_room(folder: Path, size: int, *, spare: int) -> None:
    free = max(0, shutil.disk_usage(folder).free - spare)
    if size > free:
        raise TransferError(
            f"the host has no room at {folder}: {size >> 20} MB are to come, "
            f"{free >> 20} MB are free"
        )


def _sync(file: IO[bytes]) -> None:
    """Have it on disk, which may take long."""
    file.flush()
    os.fsync(file.fileno())
