"""Collects what a home no longer needs: of every session, open or closed, and what they stand on.

Records go first, then files: killed in between, only files are left, which the next one sweeps.
"""

import asyncio
import fcntl
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from branchpoint_vmruntime.errors import BranchpointError, MissingToolError, UsageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import tidying
from branchpoint_vmruntime.removal import forget_needless
from branchpoint_vmruntime.runtime import guest_sources
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.storage.collection import Collection, Left, Removal, Stay, Waste
from branchpoint_vmruntime.storage.foundations import Foundations, needed_bases
from branchpoint_vmruntime.storage.keeping import remembered
from branchpoint_vmruntime.storage.retention import Plan, StoreBudgets, plan
from branchpoint_vmruntime.storage.sizes import layer_of, on_disk, own_sizes
from branchpoint_vmruntime.tools import find_tools

_BASES = "base"
_ONLY_A_MACHINE = (BranchState.LIVE, BranchState.LOST)


async def collect(
    home: Home,
    *,
    budgets: StoreBudgets | None = None,
    dry_run: bool = False,
    foundations: Foundations | None = None,
) -> Collection:
    """Remove what is not needed and what exceeds budgets; or only say what that would be.

    A session's budgets are those it was last opened with, each overridden by one of `budgets`.
    Sessions that are open are asked for what they should remove.
    """
    return await asyncio.to_thread(_collect, home, budgets, foundations, dry=dry_run)


def _collect(
    home: Home, budgets: StoreBudgets | None, foundations: Foundations | None, *, dry: bool
) -> Collection:
    home.ensure()
    # Before the records: a folder that is there by then and has none is no newcomer's.
    seen = _folders(home)
    with Journal.open(home.database) as journal:
        if dry:
            # What goes makes more go: only who does it all to the records can tell what that is.
            journal.detach()
        here = foundations or _here(home)
        work = _Collecting(home, journal, here, budgets or StoreBudgets(), dry=dry)
        for record in journal.sessions():
            work.session(record)
        with work.attempt("removed sessions"), tidying(home):
            work.removed()
        with work.attempt("base checkpoints"), locked(home.layers, wait=False):
            work.bases()
            with tidying(home):
                work.strays(seen)
        # Nor while a base is made: until it is on record nothing tells what it stands on.
        with work.attempt("images"), locked(home.layers, wait=False), _no_build(home):
            work.images()
        return work.result()


def _here(home: Home) -> Foundations:
    try:
        qemu = find_tools(home).qemu.build
    except MissingToolError:
        qemu = None
    return Foundations(home, qemu=qemu, guest_sources=guest_sources())


def _folders(home: Home) -> list[Path]:
    """Of all sessions: layers, overlays, flat images, and what they keep of their edge."""
    places = (home.layers, home.live, home.flat, home.session("any").parent)
    return [each for place in places if place.is_dir() for each in sorted(place.iterdir())]


class _Collecting:
    def __init__(
        self,
        home: Home,
        journal: Journal,
        foundations: Foundations,
        budgets: StoreBudgets,
        *,
        dry: bool,
    ) -> None:
        self._home = home
        self._journal = journal
        self._foundations = foundations
        self._budgets = budgets
        self._dry = dry
        self._now = datetime.now(UTC)
        self._pins = journal.pins()
        every = journal.every_checkpoint()
        self._usable = foundations.usable([c for c in every if c.kind is CheckpointKind.BASE])
        # No record knows of these any more, and there may be folders of theirs still.
        self._gone: set[CheckpointId] = set()
        self._removed: set[SessionId] = set()
        self._open_ones = False
        self._removals: list[Removal] = []
        self._left: list[Left] = []
        self._stays: list[Stay] = []

    def result(self) -> Collection:
        """All that was found and done."""
        return Collection(
            removals=tuple(self._removals),
            left=tuple(self._left),
            stays=tuple(self._stays),
            dry=self._dry,
        )

    @contextmanager
    def attempt(self, name: str) -> Generator[None]:
        """What cannot be done now is told, and the rest goes on."""
        try:
            yield
        except BlockingIOError:
            self._left.append(Left(name=name, why="in use by another process; try again later"))
        except (BranchpointError, OSError) as error:
            self._left.append(Left(name=name, why=str(error)))

    def session(self, record: SessionRecord) -> None:
        """Collect of one session: itself if it is closed, else by asking whoever has it open."""
        with self.attempt(record.key):
            sizes = own_sizes(self._home, self._journal.checkpoints(record.id))
            try:
                going = self._closed(record, sizes)
            except BlockingIOError:
                self._open_ones = True
                self._open(record, sizes)
            else:
                for folder in going:
                    self._discard(folder)

    def _open(self, record: SessionRecord, sizes: Mapping[CheckpointId, int]) -> None:
        found = self._planned(record, self._journal.branches(record.id), sizes)
        wanted = {verdict.checkpoint.id for verdict in found.removed}
        gone = wanted
        if self._dry:
            self._forget(found)
        elif wanted:
            asking = self._ask(record, [v.checkpoint.id for v in found.removed])
            # This is a thread without a loop: whoever waits for it goes on with theirs.
            gone = asyncio.run(asking)
        self._record_plan(record, found, gone)
        if stayed := [v for v in found.removed if v.checkpoint.id not in gone]:
            names = ", ".join(v.checkpoint.label or v.checkpoint.id for v in stayed)
            self._left.append(Left(name=record.key, why=f"whoever has it open keeps {names}"))

    async def _ask(
        self, record: SessionRecord, wanted: Sequence[CheckpointId]
    ) -> set[CheckpointId]:
        async with SessionControl(self._home.control(record.id)) as owner:
            return {CheckpointId(each.id) for each in await owner.remove(wanted)}

    def _closed(self, record: SessionRecord, sizes: Mapping[CheckpointId, int]) -> list[Path]:
        """What goes of a closed session; the folders of its checkpoints are for the caller.

        Whoever wants to open it waits meanwhile, so it is held for records alone and for what could
        be made anew under the same name.
        """
        folder = self._home.layers / record.id
        with tidying(self._home), ExitStack() as stack:
            if folder.is_dir():
                stack.enter_context(locked(folder, wait=False))
            branches = self._journal.branches(record.id)
            loose = [branch for branch in branches if self._is_loose(branch)]
            found = self._planned(record, branches, sizes)
            self._journal.put_branches(
                [replace(branch, state=BranchState.DROPPED) for branch in loose]
            )
            self._forget(found)
            self._record_plan(record, found, {v.checkpoint.id for v in found.removed})
            self._leftovers(record, folder)
        return [layer_of(self._home, verdict.checkpoint).folder for verdict in found.removed]

    def _forget(self, found: Plan) -> None:
        for verdict in found.removed:
            self._journal.remove_checkpoint(verdict.checkpoint.id)

    def _leftovers(self, record: SessionRecord, folder: Path) -> None:
        if folder.is_dir():
            known = {c.id for c in self._journal.checkpoints(record.id)} | self._gone
            for stray in sorted(path for path in folder.iterdir() if path.name not in known):
                self._remove(Waste.STRAY, stray, "no record knows of it", record.id)
        for kind, place in ((Waste.MACHINE, self._home.live), (Waste.FLAT, self._home.flat)):
            if (place / record.id).is_dir():
                why = "its session is closed; it is made again when it is needed"
                self._remove(kind, place / record.id, why, record.id)

    def _is_loose(self, branch: BranchRecord) -> bool:
        """Whether all that a branch of a closed session stands on is a base of an earlier time."""
        if branch.state not in _ONLY_A_MACHINE or branch.head in self._usable:
            return False
        head = self._journal.checkpoint(branch.head)
        return head is not None and head.kind is CheckpointKind.BASE

    def _planned(
        self,
        record: SessionRecord,
        branches: Sequence[BranchRecord],
        sizes: Mapping[CheckpointId, int],
    ) -> Plan:
        return plan(
            self._journal.checkpoints(record.id),
            branches,
            _overridden(remembered(self._home.session(record.id)), self._budgets),
            now=self._now,
            pins=self._pins,
            start=record.start,
            sizes=sizes,
            session=record.id,
            stood_on=self._journal.stood_on(record.id),
        )

    def _record_plan(self, record: SessionRecord, found: Plan, gone: set[CheckpointId]) -> None:
        self._gone |= gone
        for verdict in found.removed:
            if verdict.checkpoint.id in gone:
                self._removals.append(
                    Removal(
                        kind=Waste.CHECKPOINT,
                        name=verdict.checkpoint.label or verdict.checkpoint.id,
                        path=layer_of(self._home, verdict.checkpoint).folder,
                        bytes=verdict.bytes,
                        why=verdict.why,
                        session=record.id,
                    )
                )
        self._stays.append(
            Stay(session=record.id, key=record.key, kept=found.kept, unmet=found.unmet)
        )

    def removed(self) -> None:
        """What others stood on of sessions that were removed, and stand on no longer."""
        self._removed = {record.id for record in self._journal.removed_sessions()}
        if self._dry:
            needless = self._journal.forget_needless()
        else:
            needless = forget_needless(self._home, self._journal)
        for gone in needless:
            self._gone.add(gone.id)
            self._removals.append(
                Removal(
                    kind=Waste.CHECKPOINT,
                    name=gone.label or gone.id,
                    path=layer_of(self._home, gone).folder,
                    bytes=gone.cost.stored_bytes,
                    why="its session was removed, and nothing stands on it any more",
                )
            )

    def bases(self) -> None:
        """Bases that nothing descends from, and that no new machine would be forked from."""
        there = self._remaining()
        needed = needed_bases(there) | self._stood_on() | self._pins
        for base in [c for c in there.values() if c.kind is CheckpointKind.BASE]:
            # One that is just being opened may be about to fork from a base nobody stands on yet.
            wanted = self._open_ones or self._foundations.is_default(base)
            if base.id in needed or (wanted and base.id in self._usable):
                continue
            folder = layer_of(self._home, base).folder
            try:
                self._journal.remove_checkpoint(base.id)
            except UsageError as error:
                # A session that was opened meanwhile carries on from it.
                self._left.append(Left(name=f"base {base.id}", why=str(error)))
                continue
            self._gone.add(base.id)
            self._remove(Waste.BASE, folder, "nothing stands on it, and no new machine would")

    def strays(self, seen: Sequence[Path]) -> None:
        """Folders that no record knows of. The caller holds the lock of bases."""
        there = (*self._journal.sessions(), *self._journal.removed_sessions())
        # A dry run leaves the folders of those whose last record has gone by now.
        sessions = {record.id for record in there} | self._removed
        bases = self._home.layers / _BASES
        if bases.is_dir():
            known = self._remaining().keys() | self._gone
            for path in sorted(p for p in bases.iterdir() if p.name not in known):
                self._remove(Waste.STRAY, path, "no record knows of it")
        for path in seen:
            if path.name in {*sessions, _BASES} or not path.is_dir():
                continue
            with self.attempt(str(path)), ExitStack() as stack:
                if path.parent == self._home.layers:
                    stack.enter_context(locked(path, wait=False))
                self._remove(Waste.STRAY, path, "no record knows of its session")

    def images(self) -> None:
        """Images and guest code of earlier times, and downloads. The caller holds the lock."""
        if self._home.images.is_symlink():
            self._left.append(Left(name="images", why=f"{self._home.images} leads elsewhere"))
            return
        bases = [c for c in self._remaining().values() if c.kind is CheckpointKind.BASE]
        for base in self._foundations.unreadable(bases):
            why = f"on which base {base.id} stands cannot be read: `branchpoint verify` tells more"
            self._left.append(Left(name="images", why=why))
        old = list(self._foundations.old_images(bases))
        going = {removal.path for removal in old}
        for removal in (*old, *self._foundations.old_initramfs(going), *self._foundations.cache()):
            self._removals.append(removal)
            self._discard(removal.path)

    def _remaining(self) -> Mapping[CheckpointId, Checkpoint]:
        return {c.id: c for c in self._journal.every_checkpoint()}

    def _stood_on(self) -> set[CheckpointId]:
        """What branches stand on or came from, and sessions start from."""
        needed: set[CheckpointId] = set()
        for record in self._journal.sessions():
            needed |= {record.start} if record.start else set()
            for branch in self._journal.branches(record.id):
                if branch.state is not BranchState.DROPPED:
                    needed |= {branch.head, branch.origin}
        return needed

    def _remove(self, kind: Waste, path: Path, why: str, session: str = "") -> None:
        found = Removal(
            kind=kind,
            name=path.name,
            path=path,
            bytes=on_disk(path),
            why=why,
            session=session,
        )
        self._removals.append(found)
        self._discard(path)

    def _discard(self, path: Path) -> None:
        if self._dry:
            return
        if path.is_dir() and not path.is_symlink():
            _open_up(path)
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if path.exists():
            self._left.append(Left(name=str(path), why="it could not be removed"))


def _overridden(own: StoreBudgets, given: StoreBudgets) -> StoreBudgets:
    return StoreBudgets(
        bytes=own.bytes if given.bytes is None else given.bytes,
        age_s=own.age_s if given.age_s is None else given.age_s,
        checkpoints=own.checkpoints if given.checkpoints is None else given.checkpoints,
    )


def _open_up(folder: Path) -> None:
    """The tree of an unfinished image may have folders that are closed to their owner."""
    for inside in (folder, *folder.rglob("*")):
        if inside.is_dir() and not inside.is_symlink():
            inside.chmod(0o700)


@contextmanager
def _no_build(home: Home) -> Generator[None]:
    """Hold off builds of images. BlockingIOError while one is under way."""
    with (home.images / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
