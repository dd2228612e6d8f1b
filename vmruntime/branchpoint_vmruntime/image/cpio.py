"""A newc cpio archive, byte for byte the same for the same entries. Pure."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or device of an archive; owned by root, without a date."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str, mode: int = 0o755) -> Entry:
    """A folder."""
    return Entry(name, stat.S_IFDIR | mode)


def regular(name: str, content: bytes, mode: int = 0o644) -> Entry:
    """A file."""
    return Entry(name, stat.S_IFREG | mode, content)


def character_device(name: str, major: int, minor: int, mode: int = 0o600) -> Entry:
    """A device node, which only root could make on a disk."""
    return Entry(name, stat.S_IFCHR | mode, device=(major, minor))


def pack(entries: Iterable[Entry]) -> bytes:
    """The archive, in the order given.

    >>> pack([])[:6], len(pack([])) % 512
    (b'070701', 0)
    """
    archive = bytearray()
    for number, entry in enumerate(entries, start=1):
        _append(archive, entry, number)
    _append(archive, Entry("TRAILER!!!", 0), 0)
    archive.extend(bytes(-len(archive) % 512))
    return bytes(archive)


def _append(archive: bytearray, entry: Entry, number: int) -> None:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (
        number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0,
    )  # fmt: skip
    archive.extend(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
    archive.extend(bytes(-len(archive) % 4))
    archive.extend(entry.content)
    archive.extend(bytes(-len(archive) % 4))
