"""What proves a layer whole: the sha256 of each of its files, written beside them as they are made.

`digests.json`: `{"files": {NAME: {"bytes", "sha256"}}, "sha256": of that as it is written}`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.store import DEVICES, FACTS, MEMORY, NONCE, Layer

DIGESTS = "digests.json"
_ALWAYS = (MEMORY, DEVICES, FACTS, NONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """What a file held as it was written: its sha256 in hexadecimal, its size in bytes."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file of a layer that is not what was written, and in words what is wrong with it."""

    path: Path
    what: str


def write_digests(
    layer: Layer, known: Mapping[str, FileDigest] = MappingProxyType({})
) -> Mapping[str, FileDigest]:
    """Note what every file of a layer holds; what is noted. For before it is put in place.

    Reads every byte of what is not `known`: not for the event loop's thread. An earlier note is
    replaced.
    """
    digests = {
        path.name: known.get(path.name) or file_digest(path)
        for path in _files(layer)
        if path.name != DIGESTS
    }
    note_digests(layer, digests)
    return digests


def note_digests(layer: Layer, digests: Mapping[str, FileDigest]) -> None:
    """Note what the files of a layer hold, as whoever wrote them knows."""
    (layer.folder / DIGESTS).write_bytes(_rendered(digests))


def read_digests(layer: Layer) -> Mapping[str, FileDigest]:
    """What was noted of a layer, by file; nothing for one made before there were notes.

    DamagedError if the note itself is not what was written.
    """
    path = layer.folder / DIGESTS
    try:
        text = path.read_bytes()
        digests = _parsed(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    # Byte for byte: whatever was flipped in it, it would be written otherwise.
    if _rendered(digests) != text:
        raise DamagedError(f"{path} is not what was written: its own digest is wrong")
    return digests


def verifiable(layer: Layer) -> bool:
    """Whether there is a note to compare with; layers made before there were notes have none."""
    return (layer.folder / DIGESTS).exists()


def check(layer: Layer) -> list[Damage]:
    """What of a layer is not as it was written. Reads every byte, in pieces.

    Of one without a note, only what is missing can be found.
    """
    if not layer.folder.is_dir():
        return [Damage(path=layer.folder, what="it is missing")]
    try:
        digests = read_digests(layer)
    except DamagedError as error:
        return [Damage(path=layer.folder / DIGESTS, what=str(error))]
    if not digests:
        return [
            _missing(layer.folder / name) for name in _ALWAYS if not (layer.folder / name).is_file()
        ]
    damages = [compared(layer.folder / name, noted) for name, noted in digests.items()]
    strange = [path for path in _files(layer) if path.name not in {*digests, DIGESTS}]
    damages += [Damage(path=path, what="it was not there when it was saved") for path in strange]
    return [damage for damage in damages if damage is not None]


def file_digest(path: Path) -> FileDigest:
    """A file's digest as it is now."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(sha256=sha256, bytes=file.tell())


def digest_of(pieces: Iterable[bytes | memoryview]) -> FileDigest:
    """The digest of a file that holds these, one after another.

    Other threads run meanwhile, so it can be made while the same is being written.

    >>> digest_of([b"ab", b"c"]) == digest_of([b"abc"])
    True
    """
    hashed, size = hashlib.sha256(), 0
    for piece in pieces:
        hashed.update(piece)
        size += len(piece)
    return FileDigest(sha256=hashed.hexdigest(), bytes=size)


def _files(layer: Layer) -> list[Path]:
    return sorted(layer.folder.iterdir())


def _missing(path: Path) -> Damage:
    return Damage(path=path, what="it is missing")


def compared(path: Path, noted: FileDigest) -> Damage | None:
    """What is wrong with a file, if it is not what was noted of it. Reads every byte."""
    try:
        size = path.stat().st_size
        if size != noted.bytes:
            return Damage(path=path, what=f"it holds {size} bytes, and held {noted.bytes}")
        if file_digest(path) != noted:
            return Damage(path=path, what="its bytes are not those that were written")
    except FileNotFoundError:
        return _missing(path)
    except OSError as error:
        return Damage(path=path, what=f"it cannot be read: {error.strerror}")
    return None


def _rendered(digests: Mapping[str, FileDigest]) -> bytes:
    files = {name: asdict(digest) for name, digest in digests.items()}
    own = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return json.dumps({"files": files, "sha256": own}, indent=1, sort_keys=True).encode()


def _parsed(text: bytes) -> dict[str, FileDigest]:
    raw: Any = json.loads(text)
    return {
        str(name): FileDigest(sha256=str(each["sha256"]), bytes=int(each["bytes"]))
        for name, each in raw["files"].items()
    }
