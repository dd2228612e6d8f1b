"""Takes in a file that `exporting` wrote: a session of its own, closed, its branch paused.

All of it or nothing. It is made in the folder of the session it becomes, which is held meanwhile
and on no record: what a killed import leaves is found by that and swept away.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    HostError,
    IncompatibleError,
    NameTakenError,
    StorageError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host import free_bytes
from branchpoint_vmruntime.image.guest_image import GuestImage, open_image
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import tidying
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.storage.exporting import image_of
from branchpoint_vmruntime.storage.host_check import facts_here
from branchpoint_vmruntime.storage.layer_intake import LayerIntake, write_file
from branchpoint_vmruntime.storage.package_format import CarriedImage, Package
from branchpoint_vmruntime.storage.package_stream import PackageReader
from branchpoint_vmruntime.store import MachineFacts

_SPARE_BYTES = 64 << 20
_LONGEST_KEY = 1024

FactsHere = Callable[[Home, GuestImage, MachineFacts], MachineFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of a file: a session, the branch of it that carries on, and from where.

    `facts` are what its machine is bound to. `took_image` if the file's image is now this home's,
    for fresh machines too.
    """

    session: SessionRecord
    branch: BranchRecord
    checkpoint: Checkpoint
    facts: MachineFacts
    took_image: bool


def import_file(
    home: Home,
    file: Path,
    *,
    progress: Progress,
    name: str | None = None,
    facts: FactsHere = facts_here,
) -> Imported:
    """Take in a file as a new session, found again by `name` or else as it was where it was made.

    Reads and hashes every byte: not for the event loop's thread. DamagedError if the file is not
    what was written, IncompatibleError naming what differs if its machine cannot be loaded here.
    """
    home.ensure()
    try:
        with _open(file) as source, Journal.open(home.database) as journal:
            reader = PackageReader(source)
            return _Import(home, file, reader, journal, progress, facts).run(name)
    except OSError as error:
        raise _in_words(error, home) from error
    except DamagedError as error:
        raise DamagedError(f"{str(file)!r}: {error}", hint=error.hint) from error


class _Import:
    """One import, step by step."""

    def __init__(
        self,
        home: Home,
        file: Path,
        reader: PackageReader,
        journal: Journal,
        progress: Progress,
        facts: FactsHere,
    ) -> None:
        self._home = home
        self._file = file
        self._reader = reader
        self._package: Package = reader.package
        self._journal = journal
        self._progress = progress
        self._facts = facts
        self._done = 0

    def run(self, name: str | None) -> Imported:
        package = self._package
        began = datetime.now(UTC)
        key = self._key(name)
        image = image_of(self._home, package.image.digest)
        self._require_loadable(image)
        _require_space(self._home, package, with_image=image is None)
        record = SessionRecord(
            id=SessionId(secrets.token_hex(6)),
            key=key,
            created_at=began,
            current=package.branch,
        )
        size = f"{package.data_bytes / 1e6:.0f} MB"
        self._progress.step(f"{len(package.layers)} checkpoints, {size}")
        with ExitStack() as held, ExitStack() as undo:
            folder = self._own_folder(record.id, held, undo)
            taken = self._read_image(folder / "image", image)
            intake = LayerIntake(
                self._home, self._journal, folder, package.facts, package.image.sha256
            )
            for layer in package.layers:
                intake.take(self._reader, layer, self._heard)
            self._reader.finish()
            made = self._put_in_place(record, intake, taken)
            undo.pop_all()
        self._progress.done(f"session {record.id} ({record.key})")
        return made

    def _heard(self, count: int) -> None:
        self._done += count
        self._progress.advance(min(1.0, self._done / max(1, self._package.data_bytes)))

    def _key(self, name: str | None) -> str:
        known = {session.key for session in self._journal.sessions()}
        if name is not None:
            if not name or not name.isprintable() or len(name) > _LONGEST_KEY:
                raise UsageError(
                    f"{name[:80]!r} cannot be the name of a session",
                    hint=f"1 to {_LONGEST_KEY} printable characters are accepted",
                )
            if name in known:
                raise NameTakenError(
                    f"there is already a session {name!r}", hint="choose another --name"
                )
            return name
        told = self._package.session.key[:_LONGEST_KEY]
        key = "".join(c if c.isprintable() else "?" for c in told) or "imported"
        candidates = [key, f"{key} (imported)"]
        while candidates[-1] in known:
            candidates.append(f"{key} (imported {len(candidates)})")
        return next(each for each in candidates if each not in known)

    def _require_loadable(self, image: GuestImage | None) -> None:
        """See as early as can be whether a machine on that image can be loaded here."""
        carried = self._package.image
        if image is not None:
            _require_same_image(carried, image)
            self._require_same_facts(image)
        elif not carried.files:
            # Whatever else differs is worth hearing of at once.
            for other in sorted(self._home.images.glob("*/manifest.json")):
                self._require_same_facts(open_image(other.parent))
            raise IncompatibleError(
                f"the image {carried.digest[:12]} that the checkpoint stands on is not on this"
                " host; nothing was imported",
                hint="export it `--with-image`, or run `branchpoint setup` first",
            )

    def _require_same_facts(self, image: GuestImage) -> None:
        saved = self._package.facts
        try:
            self._facts(self._home, image, saved).require_same(saved)
        except IncompatibleError as error:
            raise IncompatibleError(
                f"{error}; nothing was imported",
                hint="import it on a host where these are the same",
            ) from error

    def _own_folder(self, session: SessionId, held: ExitStack, undo: ExitStack) -> Path:
        folder = self._home.layers / session
        # Who sweeps takes a folder on no record for one that was left, unless somebody holds it.
        with tidying(self._home):
            folder.mkdir(mode=0o700)
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            held.enter_context(locked(folder, wait=False))
        return folder

    def _read_image(self, folder: Path, here: GuestImage | None) -> GuestImage | None:
        """Take in the image that is carried; None if there is none, or the same is here."""
        carried = self._package.image
        if here is not None or not carried.files:
            for file in carried.files:
                self._reader.read(file, lambda _offset, _data: None, self._heard)
            return None
        for file in carried.files:
            place = folder / file.name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with write_file(place, file) as take:
                self._reader.read(file, take, self._heard)
        taken = open_image(folder)
        said = {file.name: file.sha256 for file in carried.files}
        for name, digest in taken.manifest.sha256.items():
            if said.get(name) != digest:
                raise DamagedError(f"the image's {name} is not what its manifest says")
        if taken.digest != carried.digest:
            raise DamagedError(f"the image is {taken.digest[:12]}, not {carried.digest[:12]}")
        _require_same_image(carried, taken)
        self._require_same_facts(taken)
        return taken

    def _put_in_place(
        self, record: SessionRecord, intake: LayerIntake, image: GuestImage | None
    ) -> Imported:
        # Others who make bases, or take one away, wait meanwhile; and so do those who sweep.
        with locked(self._home.layers, wait=True), tidying(self._home), ExitStack() as undo:
            if image is not None:
                self._put_image(image, undo)
            intake.publish(undo)
            checkpoints = intake.records(record.id, position=self._position())
            if (start := self._package.session.start) is not None:
                record = replace(record, start=intake.ids.get(start))
            head = checkpoints[-1]
            branch = BranchRecord(
                session=record.id,
                name=self._package.branch,
                index=0,
                parent=None,
                origin=intake.ids[self._package.layers[0].checkpoint.id],
                head=head.id,
                state=BranchState.PAUSED,
                created_at=record.created_at,
            )
            own = {checkpoint.id for checkpoint in checkpoints}
            pins = {intake.ids[pin] for pin in self._package.pins if pin in intake.ids}
            self._journal.add_lineage(
                record,
                checkpoints,
                branch,
                self._operations(record, intake, head),
                sorted(pins & own),
            )
            undo.pop_all()
        return Imported(
            session=record,
            branch=branch,
            checkpoint=head,
            facts=self._package.facts,
            took_image=image is not None,
        )

    def _put_image(self, image: GuestImage, undo: ExitStack) -> None:
        place = self._home.images / image.digest
        if place.exists():
            # Made here meanwhile: the two must be one, or the file stands on another.
            _require_same_image(self._package.image, open_image(place))
            shutil.rmtree(image.folder)
            return
        for path in [*image.folder.rglob("*"), image.folder]:
            sync_file(path)
        image.folder.rename(place)
        undo.callback(shutil.rmtree, place, ignore_errors=True)
        sync_file(place.parent)

    def _operations(
        self, record: SessionRecord, intake: LayerIntake, head: Checkpoint
    ) -> list[Operation]:
        """What was done where it was made, and that it was brought here."""
        done = [
            replace(
                operation,
                session=record.id,
                checkpoint=intake.ids.get(operation.checkpoint or CheckpointId("")),
            )
            for operation in self._package.operations
        ]
        took = datetime.now(UTC) - record.created_at
        return [
            *done,
            Operation(
                session=record.id,
                op="import",
                branch=self._package.branch,
                checkpoint=head.id,
                at=datetime.now(UTC),
                total_ms=round(1000 * took.total_seconds(), 3),
                detail=self._file.name,
            ),
        ]

    def _position(self) -> int:
        """How far this home's ledger is: what follows is after all that is imported."""
        try:
            with Ledger.read(self._home.ledger) as ledger:
                return ledger.position()
        except UnknownNameError:
            return 0


def _open(file: Path) -> BinaryIO:
    try:
        source = file.open("rb")
    except OSError as error:
        raise UsageError(
            f"{str(file)!r} cannot be read: {error.strerror}",
            hint="name a file that `branchpoint export` wrote",
        ) from error
    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        source.close()
        raise UsageError(
            f"{str(file)!r} is not a regular file", hint="name one that `branchpoint export` wrote"
        )
    return source


def _require_same_image(carried: CarriedImage, here: GuestImage) -> None:
    """IncompatibleError if the same recipe came out as other bytes."""
    ours = here.bound_to
    if different := sorted(name for name in ours if ours[name] != carried.sha256.get(name)):
        raise IncompatibleError(
            f"image {carried.digest[:12]} has the same recipe here and there, but was made of other"
            f" packages: {', '.join(different)} differ{'s' if len(different) == 1 else ''};"
            " nothing was imported",
            hint="import it into a home of its own (BRANCHPOINT_HOME), with a file that was"
            " exported `--with-image`",
        )


def _require_space(home: Home, package: Package, *, with_image: bool) -> None:
    skipped = 0 if with_image else sum(file.data for file in package.image.files)
    needed, free = package.data_bytes - skipped + _SPARE_BYTES, free_bytes(home.layers)
    if free < needed:
        raise StorageError(
            f"{home.root} has {free >> 20} MB free; what the file is said to hold needs"
            f" {needed >> 20} MB",
            hint="free some space there, or name a roomier folder in BRANCHPOINT_HOME",
        )


def _in_words(error: OSError, home: Home) -> BranchpointError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError("the disk is full", hint="free some space; nothing was imported")
    place = home.root if error.filename is None else os.fsdecode(error.filename)
    return HostError(
        f"{str(place)!r} cannot be used: {error.strerror or error}",
        hint="nothing was imported; look at the disk it is on, and at who may use it",
    )
