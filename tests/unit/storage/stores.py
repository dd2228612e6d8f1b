"""Homes with sessions, checkpoints and bases, as real ones are on disk, but small."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint
from tests.unit.storage.layers import FACTS_HERE, made_layer

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import (
    FILES,
    MANIFEST,
    ROOT,
    GuestImage,
    open_image,
)
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import PageRun, write_layer

MEMORY_BYTES = 1 << 20
LONG_AGO = datetime.now(UTC) - timedelta(days=30)


def small_home(folder: Path) -> Home:
    """A home with all its folders."""
    home = Home(folder / "home", folder / "home" / "run")
    home.ensure()
    return home


def memory_layer(folder: Path, content: int = 7) -> bytes:
    """A memory layer of two pages, as `write_layer` writes it."""
    path = folder / f"layer-{os.urandom(4).hex()}"
    pages = memoryview(bytes([content]) * (2 * PAGE))
    write_layer(path, MEMORY_BYTES, [(PageRun(3, 2, zero=False), pages)])
    written = path.read_bytes()
    path.unlink()
    return written


def made_image(home: Home, *, root: bytes = b"a root") -> GuestImage:
    """The image that test layers name; with other packages it has another root."""
    folder = home.images / FACTS_HERE.image
    folder.mkdir(exist_ok=True)
    sha256: dict[str, str] = {}
    for name in FILES:
        data = root if name == ROOT else name.encode()
        (folder / name).write_bytes(data)
        sha256[name] = hashlib.sha256(data).hexdigest()
    said: dict[str, object] = {"digest": folder.name, "debs": {}, "wheels": []}
    (folder / MANIFEST).write_text(json.dumps(said | {"sha256": sha256}))
    return open_image(folder)


class SmallStore:
    """Puts sessions and checkpoints into a home: records and files."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.journal = Journal.open(home.database)
        self._count = 0

    def base(
        self, name: str = "base0000", *, key: str = "now", image: Mapping[str, str] | None = None
    ) -> Checkpoint:
        """A base with its memory in full, in which it is noted what its image came out as."""
        here = made_image(self.home).bound_to
        folder = self.home.layers / "base"
        made_layer(folder, name, memory=bytes(MEMORY_BYTES), image=here if image is None else image)
        made = replace(a_base(name, key=key), created_at=LONG_AGO)
        self.journal.add_checkpoint(made, advance=None)
        return made

    def session(
        self,
        name: str = "s-1",
        *,
        head: str = "base0000",
        state: BranchState = BranchState.LOST,
        start: str | None = None,
    ) -> SessionRecord:
        """A session with one branch, which stands on a base as when it was opened first."""
        record = SessionRecord(
            id=SessionId(name),
            key=f"/home/me/{name}.ipynb",
            created_at=LONG_AGO,
            start=CheckpointId(start) if start else None,
            current=BranchName("main"),
        )
        self.journal.add_session(record)
        self.journal.put_branch(a_branch(head=head, origin=head, state=state, session=name))
        (self.home.layers / name).mkdir(mode=0o700)
        return record

    def checkpoint(
        self,
        name: str,
        parent: str = "base0000",
        *,
        session: str = "s-1",
        kind: CheckpointKind = CheckpointKind.USER,
        label: str | None = None,
        advance: bool = False,
    ) -> Checkpoint:
        """A checkpoint, each a minute younger than the one before; its branch may stand on it."""
        self._count += 1
        folder = self.home.layers / session
        made_layer(folder, name, memory=memory_layer(self.home.cache))
        made = replace(
            a_checkpoint(name, parent, session=session, kind=kind, label=label),
            created_at=LONG_AGO + timedelta(minutes=self._count),
        )
        self.journal.add_checkpoint(made, advance=BranchName("main") if advance else None)
        return made
