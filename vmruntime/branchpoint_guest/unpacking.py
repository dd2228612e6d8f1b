"""Write what a tar archive holds below a folder, and nothing outside it."""

import os
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from branchpoint_guest.placing import FailedError, aside, make_folder

_PIECE_BYTES = 256 << 10


def unpack_archive(source: Any, root: Path) -> int:
    """Write files as they come out of a stream with `read`; how many there were.

    `root` is given without links. FailedError at the first name or link that leads out of it.
    """
    files = 0
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=2) as archive:
            for member in archive:
                files += _unpack_member(archive, member, root)
    except tarfile.TarError as error:
        raise FailedError(f"what arrived is not an archive: {error}") from error
    return files


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> int:
    place = _below(root, member.name)
    if member.isdir():
        make_folder(place)
        return 0
    make_folder(place.parent)
    if member.issym():
        _make_link(root, place, member.linkname)
    elif member.isreg():
        _write(place, archive.extractfile(member), member.mode, int(member.mtime))
    else:
        raise FailedError(f"{member.name!r} is neither file, folder nor link")
    return 1


def _write(place: Path, content: IO[bytes] | None, mode: int, time_s: int) -> None:
    with aside(place) as opened:
        while content and (piece := content.read(_PIECE_BYTES)):
            opened.file.write(piece)
        opened.put_in_place(mode, time_s=time_s)


def _make_link(root: Path, place: Path, leads_to: str) -> None:
    if leads_to.startswith("/") or not _is_in(place.parent / leads_to, root):
        raise FailedError(f"the link {place.name!r} leads out of the folder")
    with suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(leads_to)


def _below(root: Path, name: str) -> Path:
    parts = name.split("/")
    place = root.joinpath(*parts)
    if name.startswith("/") or ".." in parts or not _is_in(place.parent, root):
        raise FailedError(f"{name!r} leads out of the folder")
    return place


def _is_in(place: Path, root: Path) -> bool:
    return Path(os.path.realpath(place)).is_relative_to(root)
