"""An open session collects its own: after a checkpoint, when its store's budgets are exceeded."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.storage.retention import Plan, StoreBudgets, plan
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)

_REMEMBERED = "store.json"
_MOST_NAMED = 12
_OVER = "over the budget of the store: "


class Keeping:
    """Joins the register, which knows what is needed, and the workshop, which has the files.

    `notices` say in words what went, or cannot go, until whoever drives the session has told it.
    """

    def __init__(self, register: Register, workshop: Workshop) -> None:
        self._register = register
        self._workshop = workshop
        self._unmet: tuple[str, ...] = ()
        self._untold = _Gone()
        self.notices: list[str] = []

    async def collect(self, taken: Checkpoint) -> None:
        """Remove what the budgets ask for, now that one more was taken, which stays.

        Whatever fails is told in the log: that checkpoint is there.
        """
        if not self._register.store.any:
            return
        try:
            await self._collect(taken)
        except Exception:
            log.exception("the session's store could not be brought within its budgets")

    async def _collect(self, taken: Checkpoint) -> None:
        found = self._planned(taken)
        gone = self._register.remove([verdict.checkpoint for verdict in found.removed])
        # Records first: killed in between, only files are left, which the next opening sweeps.
        await self._workshop.remove(gone)
        if gone:
            freed = sum(v.bytes for v in found.removed if v.checkpoint in gone)
            log.warning("%s", _Gone().and_these(gone, freed).words)
            self._notice_gone(gone, freed)
        # Once: it stays so until something is unpinned, dropped or labelled otherwise.
        if found.unmet and not self._unmet:
            self.notices.append(f"{_OVER}nothing more can go: {'; '.join(found.unmet)}")
            log.warning("%s", self.notices[-1])
        self._unmet = found.unmet

    def _notice_gone(self, gone: Sequence[Checkpoint], freed_bytes: int) -> None:
        """One notice of all that went since the last was told: each cell may remove one more."""
        if self._untold.words in self.notices:
            self.notices.remove(self._untold.words)
        else:
            self._untold = _Gone()
        self._untold = self._untold.and_these(gone, freed_bytes)
        self.notices.append(self._untold.words)

    def _planned(self, taken: Checkpoint) -> Plan:
        return plan(
            self._register.checkpoints(),
            [branch.record for branch in self._register.branches()],
            self._register.store,
            now=datetime.now(UTC),
            pins=self._register.pins(),
            start=self._register.record.start,
            spared={taken.id},
            session=self._register.record.id,
            stood_on=self._register.stood_on(),
        )


@dataclass(frozen=True, slots=True)
class _Gone:
    """How many checkpoints were removed, the names of the first, and what that freed."""

    names: tuple[str, ...] = ()
    count: int = 0
    freed_bytes: int = 0

    def and_these(self, gone: Sequence[Checkpoint], freed_bytes: int) -> "_Gone":
        """With those that went besides."""
        names = (*self.names, *(each.label or each.id for each in gone))[:_MOST_NAMED]
        return _Gone(names, self.count + len(gone), self.freed_bytes + freed_bytes)

    @property
    def words(self) -> str:
        """As it is told."""
        more = self.count - len(self.names)
        names = ", ".join(self.names) + (f" and {more} more" if more else "")
        return f"{_OVER}removed {names}; {self.freed_bytes / 1e6:.1f} MB are free"


def remember(folder: Path, budgets: StoreBudgets) -> None:
    """Note in a session's folder what its store may take, for when nobody has it open."""
    part = folder / f"{_REMEMBERED}.part"
    # A full disk must not keep a session from being opened: then what was noted before holds.
    with suppress(OSError):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps(asdict(budgets)))
            part.replace(folder / _REMEMBERED)
        finally:
            part.unlink(missing_ok=True)


def remembered(folder: Path) -> StoreBudgets:
    """What was noted there; no budgets if nothing was, or not what this version can read."""
    with suppress(OSError, ValueError, TypeError):
        return StoreBudgets(**json.loads((folder / _REMEMBERED).read_text()))
    return StoreBudgets()
