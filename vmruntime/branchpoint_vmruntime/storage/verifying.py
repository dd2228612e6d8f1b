"""Looks whether all that is on record is whole on the disk, and tells what damage takes with it."""

import asyncio
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.database import uri_to_read
from branchpoint_vmruntime.errors import (
    DamagedError,
    MissingToolError,
    UnknownNameError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId, CheckpointKind, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.memory.layer import read_runs
from branchpoint_vmruntime.storage.digests import Damage, check, verifiable
from branchpoint_vmruntime.storage.sizes import layer_of
from branchpoint_vmruntime.storage.verifying_images import (
    DamagedImage,
    LookedInto,
    StoodOn,
    damaged_images,
    look_into,
    stood_on,
)
from branchpoint_vmruntime.store import FACTS, Layer
from branchpoint_vmruntime.tools import find_tools

_DISKS_S = 60.0
_ONE_DISK_S = 10.0
_BROKEN = 2
_BASES = "base"

Advance = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedLayer:
    """A checkpoint whose files are not what was written, and every one that cannot do without it.

    `needed_by` are its descendants, the nearest first; it is none of them itself.
    """

    checkpoint: Checkpoint
    damages: tuple[Damage, ...]
    needed_by: tuple[Checkpoint, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBooks:
    """A database that is not whole: what SQLite says of it."""

    path: Path
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was looked at, and what was found.

    `bytes` are those that were compared with their digests. `unverifiable` are whole as far as can
    be told: they were made before digests were noted.
    `disks_unread` is how many disk overlays were not read through in the time there was for it.
    `strays` are files no record knows of: no damage, the next collection takes them.
    """

    checkpoints: int
    bytes: int
    damaged: tuple[DamagedLayer, ...]
    images: tuple[DamagedImage, ...]
    books: tuple[DamagedBooks, ...]
    unverifiable: tuple[Checkpoint, ...]
    strays: tuple[Path, ...]
    disks_unread: int
    elapsed_s: float

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not (self.damaged or self.images or self.books)


def _nobody_looks(_done: int, _of: int) -> None:
    """For who does not watch."""


async def verify(
    home: Home, session: SessionId | None = None, *, advance: Advance = _nobody_looks
) -> Verification:
    """Look at every checkpoint of a home, or at one session's and the bases under them.

    And at the images that these bases stand on.

    Reads every byte, on as many processors as there are. `advance` hears how many of how many are
    done. UnknownNameError if there is no such session.
    """
    return await asyncio.to_thread(_verify, home, session, advance)


def _verify(home: Home, session: SessionId | None, advance: Advance) -> Verification:
    began = time.monotonic()
    books = _books(home)
    if any(each.path == home.database for each in books):
        # What its rows say cannot be relied on.
        return _nothing_but(books, began)
    with Journal.read(home.database) as journal:
        every = journal.every_checkpoint()
        wanted = every if session is None else _of_session(journal, session)
        found = _Looking(home).look(wanted, stood_on(home, wanted), advance)
        # What a collection took in the meantime was not damaged.
        there = {each.id for each in journal.every_checkpoint()}
        tree = Tree(every)
        damaged = [
            DamagedLayer(
                checkpoint=checkpoint,
                damages=tuple(found.damages[checkpoint.id]),
                needed_by=tree.descendants(checkpoint.id),
                advice=_advice(home, checkpoint),
            )
            for checkpoint in wanted
            if found.damages[checkpoint.id] and checkpoint.id in there
        ]
        images = [
            damaged for each in found.images for damaged in damaged_images(home, each, tree, there)
        ]
        strays = _strays(home, journal, session)
    return Verification(
        checkpoints=len(wanted),
        bytes=found.bytes,
        damaged=tuple(damaged),
        images=tuple(images),
        books=tuple(books),
        unverifiable=tuple(c for c in wanted if c.id in found.unverifiable),
        strays=tuple(strays),
        disks_unread=found.disks_unread,
        elapsed_s=time.monotonic() - began,
    )


def _nothing_but(books: Sequence[DamagedBooks], began: float) -> Verification:
    return Verification(
        checkpoints=0,
        bytes=0,
        damaged=(),
        images=(),
        books=tuple(books),
        unverifiable=(),
        strays=(),
        disks_unread=0,
        elapsed_s=time.monotonic() - began,
    )


class _Looking:
    """Looks at layers and images, several at a time."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._deadline = time.monotonic() + _DISKS_S
        self.damages: dict[CheckpointId, list[Damage]] = {}
        self.images: list[LookedInto] = []
        self.unverifiable: set[CheckpointId] = set()
        self.disks_unread = 0
        self.bytes = 0
        try:
            self._qemu_img: Sequence[str] = find_tools(home).qemu_img
        except MissingToolError:
            self._qemu_img = ()

    def look(
        self, checkpoints: Sequence[Checkpoint], images: Sequence[StoodOn], advance: Advance
    ) -> "_Looking":
        of = len(checkpoints) + len(images)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            # Begun with, for they are the largest.
            looked_into = threads.map(look_into, images)
            looked = threads.map(self._look, checkpoints)
            for done, (checkpoint, (damages, count)) in enumerate(
                zip(checkpoints, looked, strict=True), 1
            ):
                self.damages[checkpoint.id] = damages
                self.bytes += count
                advance(done, of)
            for done, each in enumerate(looked_into, len(checkpoints) + 1):
                self.images.append(each)
                self.bytes += each.bytes
                advance(done, of)
        return self

    def _look(self, checkpoint: Checkpoint) -> tuple[list[Damage], int]:
        layer = layer_of(self._home, checkpoint)
        damages = check(layer)
        named = {damage.path for damage in damages}
        count = _apparent(layer.folder)
        if not verifiable(layer):
            self.unverifiable.add(checkpoint.id)
            count = 0
        if not named & {layer.memory, layer.folder / FACTS}:
            damages += _memory(layer, checkpoint)
        for disk in layer.disks:
            if disk not in named:
                damages += self._disk(disk)
        return damages, count

    def _disk(self, disk: Path) -> list[Damage]:
        left_s = self._deadline - time.monotonic()
        if not self._qemu_img or left_s <= 0:
            self.disks_unread += 1
            return []
        argv = [*self._qemu_img, "check", "-U", "-f", "qcow2", "--output=json", str(disk)]
        try:
            read = subprocess.run(
                argv, check=False, capture_output=True, timeout=min(left_s, _ONE_DISK_S)
            )
        except (subprocess.TimeoutExpired, OSError):
            self.disks_unread += 1
            return []
        # 3 is clusters that are lost to the file but hurt nobody.
        if read.returncode not in (1, _BROKEN):
            return []
        return [
            Damage(path=disk, what=f"its disk cannot be read: {_said(read.stderr, read.stdout)}")
        ]


def _apparent(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return 0


def _memory(layer: Layer, checkpoint: Checkpoint) -> list[Damage]:
    """What is wrong with how a memory file is laid out; a base's is the memory itself."""
    try:
        size = layer.facts().memory_mib << 20
        if checkpoint.kind is not CheckpointKind.BASE:
            read_runs(layer.memory, size)
        elif layer.memory.stat().st_size != size:
            held = layer.memory.stat().st_size
            return [Damage(path=layer.memory, what=f"it holds {held} bytes, not {size}")]
    except DamagedError as error:
        return [Damage(path=layer.memory, what=str(error))]
    except OSError as error:
        return [Damage(path=layer.memory, what=f"it cannot be read: {error.strerror}")]
    return []


def _of_session(journal: Journal, session: SessionId) -> list[Checkpoint]:
    if journal.session(session) is None:
        known = tuple(record.id for record in journal.sessions())
        raise UnknownNameError("session", session, known)
    return journal.checkpoints(session)


def _books(home: Home) -> list[DamagedBooks]:
    """What SQLite finds wrong with what is on record."""
    damaged: list[DamagedBooks] = []
    for path in (home.database, home.ledger):
        if not path.exists():
            continue
        try:
            opened = sqlite3.connect(uri_to_read(path), uri=True, timeout=10.0)
            with closing(opened) as connection:
                said = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
                said += [
                    f"a row of {row[0]} belongs to none of {row[2]}"
                    for row in connection.execute("PRAGMA foreign_key_check")
                ]
        except sqlite3.DatabaseError as error:
            said = [str(error)]
        if said != ["ok"]:
            what = "; ".join(line for line in said if line != "ok")
            damaged.append(DamagedBooks(path=path, what=what))
    return damaged


def _strays(home: Home, journal: Journal, session: SessionId | None) -> list[Path]:
    """Files no record knows of. What is being made has no record yet."""
    there = (*journal.sessions(), *journal.removed_sessions())
    sessions = [record.id for record in there if session in (None, record.id)]
    known = {each.id for each in journal.every_checkpoint()}
    found: list[Path] = []
    for name in (*sessions, _BASES):
        folder = home.layers / name
        if folder.is_dir():
            there = sorted(folder.iterdir())
            found += [p for p in there if p.name not in known and p.suffix != ".part"]
    return found


def _advice(home: Home, checkpoint: Checkpoint) -> str:
    folder = layer_of(home, checkpoint).folder
    if checkpoint.kind is CheckpointKind.BASE:
        return (
            f"none of these can be restored. Move {folder} away, and the next session boots a base"
            " of its own; import an export of what you need of these"
        )
    return (
        "none of these can be restored; those before it can. Import an export of what you need, "
        "or give them up with `branchpoint rm`"
    )


def _said(*outputs: bytes) -> str:
    for output in outputs:
        lines = output.decode(errors="replace").strip().splitlines()
        if lines and not lines[-1].startswith(("{", "}")):
            return lines[-1].removeprefix("qemu-img: ")
    try:
        told = json.loads(outputs[-1])
        return f"{told.get('corruptions', 0)} corruptions, {told.get('check-errors', 0)} errors"
    except (ValueError, AttributeError):
        return "qemu-img finds it broken"
