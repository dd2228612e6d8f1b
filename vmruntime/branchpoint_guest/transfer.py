"""Files in and out of the machine, each over a stream that the host opens for it."""

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from branchpoint_guest.pieces import PIECE_BYTES, GuestStream, conversing
from branchpoint_guest.placing import FailedError, located, make_folder, placed, require_room

# What says it is empty, as files of /proc do, is read whole to learn how much it holds.
_UNSIZED_BYTES = 16 << 20


def put(stream: GuestStream, arguments: list[str]) -> None:
    """Serve `put PATH SIZE MODE NAME`: write a file whole, or leave nothing of it.

    If PATH is a folder, the file is NAME in it.
    """
    path, size, mode, name = arguments
    with conversing(stream) as conversation, placed(path, name, int(size)) as aside:
        pieces = conversation.accept()
        for piece in pieces:
            aside.file.write(piece)
        aside.put_in_place(int(mode, 8), sync=True)
        conversation.done(str(aside.target), "1", str(pieces.count))


def get(stream: GuestStream, arguments: list[str]) -> None:
    """Serve `get PATH`: its size in 8 bytes, then its contents."""
    (path,) = arguments
    with conversing(stream) as conversation, _opened(located(path)) as file:
        size, contents = _contents(file)
        conversation.accept()
        conversation.send(size, contents)


def unpack(stream: GuestStream, arguments: list[str]) -> None:
    """Serve `unpack FOLDER SIZE`: write what is in a tar archive below a folder, as it comes."""
    # Put and get do without it, and emulated it takes long to import.
    from branchpoint_guest.unpacking import unpack_archive  # noqa: PLC0415

    folder, size = arguments
    with conversing(stream) as conversation:
        root = located(folder)
        make_folder(root)
        require_room(root, int(size))
        pieces = conversation.accept()
        files = unpack_archive(pieces, root)
        # Beyond what tarfile takes there is padding, and the end that tells whether all is right.
        for _ in pieces:
            pass
        conversation.done(str(root), str(files), str(pieces.count))


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    # A named pipe would wait here for somebody to write to it.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise FailedError(f"{path} is a folder: pack it first, or name a file")
        if not stat.S_ISREG(mode):
            raise FailedError(f"{path} is a device, a pipe or a socket, not a file")
        with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(fd)


def _contents(file: IO[bytes]) -> tuple[int, Iterator[bytes]]:
    size = os.fstat(file.fileno()).st_size
    if size:
        return size, _unchanged(file)
    whole = bytearray()
    while len(whole) < _UNSIZED_BYTES and (piece := file.read(PIECE_BYTES)):
        whole += piece
    return len(whole), iter([bytes(whole)] if whole else [])


def _unchanged(file: IO[bytes]) -> Iterator[bytes]:
    """A file's bytes as they are now. FailedError if it is changed meanwhile."""
    before = os.fstat(file.fileno())
    left = before.st_size
    while left and (piece := file.read(min(left, PIECE_BYTES))):
        left -= len(piece)
        yield piece
    after = os.fstat(file.fileno())
    if left or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise FailedError("it was changed while it was read")


HANDLERS: dict[str, Callable[[GuestStream, list[str]], None]] = {
    "put": put,
    "get": get,
    "unpack": unpack,
}
