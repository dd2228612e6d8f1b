"""Removes a session that is closed, with everything it had on the disk that nobody else needs.

A branch that it was lent is given back first. What another session stands on stays, under no name,
until that one goes as well.
"""

import logging
import shutil
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from branchpoint_vmruntime.borrowers import has_come, was_restarted
from branchpoint_vmruntime.borrowing import taken_back
from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.errors import (
    BranchpointError,
    SessionBusyError,
    StorageError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import disk_bytes
from branchpoint_vmruntime.lineage import (
    BranchState,
    Checkpoint,
    CheckpointId,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.loan import last_of
from branchpoint_vmruntime.locks import closed_session, holder, owner_kind, tidying
from branchpoint_vmruntime.storage.sizes import layer_of

log = logging.getLogger(__name__)

# An open lender looks twice a second, and between the operations that it has under way.
_TAKEN_BACK_WITHIN_S = 5.0
_END = {
    OwnerKind.KERNEL: "shut that notebook's kernel down",
    OwnerKind.OWNER: "`branchpoint close {id}`",
    OwnerKind.SCRIPT: "end the script that has it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went with a session: how many checkpoints, and the bytes of disk given back.

    `kept` is how many stay because others stand on them, `needed_by` the keys of those sessions,
    `given_back` the branch that it had until now of the session of key `given_back_to`.
    """

    session: SessionRecord
    checkpoints: int
    freed_bytes: int
    kept: int = 0
    needed_by: tuple[str, ...] = ()
    given_back: str | None = None
    given_back_to: str | None = None


def remove_session(home: Home, session: str) -> Removed:
    """Remove the session of that id: checkpoints, branches and files. The ledger keeps its rows.

    UnknownNameError if there is none, SessionBusyError, saying who, while somebody has it open;
    UsageError, and it stays, while a notebook that is open continues one of its branches, or
    another session is to get back what this one has saved and cannot.
    """
    if not home.database.exists():
        raise UnknownNameError("session", session, ())
    try:
        return _remove_session(home, session)
    except OSError as error:
        raise StorageError(
            f"session {session!r} cannot be removed: {error}",
            hint="it is as it was; look at the permissions of its files, and at the disk",
        ) from error


def require_removable(home: Home, session: str) -> None:
    """UsageError, as `remove_session` would have it, of a session that may be open itself."""
    with Journal.read(home.database) as journal:
        record = journal.session(SessionId(session))
        if record is not None:
            _require_nothing_lent(home, journal, record)


def has_borrowed(home: Home, session: str) -> bool:
    """Whether a session continues a branch that another is to get back."""
    with Journal.read(home.database) as journal:
        return journal.loan_of(SessionId(session)) is not None


def forget_needless(home: Home, journal: Journal) -> list[Checkpoint]:
    """Remove what was kept of removed sessions and nobody needs any more. Within `tidying`."""
    gone = journal.forget_needless()
    _remove_files(home, journal, gone)
    return gone


@contextmanager
def forgotten_unless_opened(
    home: Home, journal: Journal, record: SessionRecord
) -> Generator[Callable[[], None]]:
    """Around the opening of a session that this process holds: call what is given once it is open.

    One that was never open before, and fails to be, has nothing but its key, which it would keep
    from whoever tries again: it goes, with what was written of it.
    """
    is_new = record.start is None and not journal.branches(record.id)
    opened = False

    def note() -> None:
        nonlocal opened
        opened = True

    try:
        yield note
    except BaseException:
        if is_new and not opened:
            try:
                _remove(home, journal, record)
            except (BranchpointError, OSError) as error:
                log.warning("session %r, which could not be opened, stays: %s", record.key, error)
        raise


def remove_if_nothing_saved(home: Home, journal: Journal, record: SessionRecord) -> bool:
    """Remove a session that nobody has open and that has never saved anything; whether it went.

    It has nothing but its key, as that of a notebook that was only looked at and deleted.
    """
    home.ensure()
    try:
        with tidying(home), closed_session(home, record.id, record.key):
            saved = record.start is not None or record.id in journal.tallies()
            if saved or journal.loan_of(record.id) is not None:
                return False
            _remove(home, journal, record)
    except (SessionBusyError, OSError):
        return False
    return True


def _remove_session(home: Home, session: str) -> Removed:
    with Journal.open(home.database) as journal:
        lent = journal.loan_of(SessionId(session))
        lender = journal.session(lent.session) if lent else None
        _have_it_taken_back(home, journal, session)
        with tidying(home):
            record = _known(journal, session)
            with suppress(SessionBusyError):
                if lent is not None:
                    _give_back(home, journal, lent.session)
            with closed_session(home, session, record.key):
                list(taken_back(home, journal, record.id, asked=""))
                _require_nothing_lent(home, journal, record)
                _require_given_back(journal, record)
                removed = _remove(home, journal, record)
    if lent is None or lender is None:
        return removed
    return replace(removed, given_back=lent.name, given_back_to=lender.key)


def _known(journal: Journal, session: str) -> SessionRecord:
    record = journal.session(SessionId(session))
    if record is None:
        known = tuple(f"{it.id} ({it.key})" for it in journal.sessions())
        raise UnknownNameError("session", session, known)
    return record


def _have_it_taken_back(home: Home, journal: Journal, session: str) -> None:
    """Give a lender that is open the time to take back what a session has that nobody has open."""
    if holder(home.layers / session) is not None:
        return
    has_come(home, session)
    until = time.monotonic() + _TAKEN_BACK_WITHIN_S
    while (lent := journal.loan_of(SessionId(session))) and time.monotonic() < until:
        if holder(home.layers / lent.session) is None:
            return
        time.sleep(0.1)


def _give_back(home: Home, journal: Journal, lender: SessionId) -> None:
    """Have a lender that is closed take back what it can; SessionBusyError if it is open."""
    with closed_session(home, lender, lender):
        list(taken_back(home, journal, lender))


def _remove(home: Home, journal: Journal, record: SessionRecord) -> Removed:
    layers = home.layers / record.id
    places = [home.session(record.id), home.flat / record.id, home.live / record.id, layers]
    keys = {it.key for it in journal.sessions()}
    needed_by = dict.fromkeys(journal.stood_on(record.id).values())
    freed = disk_bytes(places)
    # Forgotten first: what is left of it after a power cut is swept, and nothing is missed.
    gone = journal.remove_session(record.id)
    with suppress(OSError):
        home.control(record.id).unlink(missing_ok=True)
    for place in places[:-1]:
        shutil.rmtree(place, ignore_errors=True)
    freed += _remove_files(home, journal, [it for it in gone if it.session != record.id])
    kept, _ = journal.tallies().get(record.id, (0, None))
    for path in sorted(layers.glob("*")) if kept else [layers]:
        if journal.checkpoint(CheckpointId(path.name)) is None:
            shutil.rmtree(path, ignore_errors=True)
    return Removed(
        session=record,
        checkpoints=sum(it.session == record.id for it in gone),
        freed_bytes=freed - disk_bytes([layers]),
        kept=kept,
        needed_by=tuple(it for it in needed_by if it in keys),
    )


def _remove_files(home: Home, journal: Journal, gone: Iterable[Checkpoint]) -> int:
    """Remove the files of checkpoints of sessions removed before; the bytes of disk given back."""
    folders = [layer_of(home, it).folder for it in gone]
    freed = disk_bytes(folders)
    left = {it.id for it in journal.removed_sessions()}
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.name not in left:
            shutil.rmtree(folder.parent, ignore_errors=True)
    return freed


def _require_nothing_lent(home: Home, journal: Journal, lender: SessionRecord) -> None:
    """UsageError, saying what ends that, while a branch of it carries on in another session."""
    for branch in journal.branches(lender.id):
        borrower = journal.session(branch.lent_to) if branch.lent_to else None
        if branch.state is not BranchState.LENT or borrower is None:
            continue
        pid = holder(home.layers / borrower.id)
        if pid is None and not was_restarted(home, borrower.id):
            # Whoever removes the lender takes it back.
            continue
        kind = OwnerKind.KERNEL if pid is None else owner_kind(pid)
        raise UsageError(
            f"{lender.key!r} is not removed: its branch {branch.name!r} is open as"
            f" {borrower.key!r}, session {borrower.id}",
            hint=f"{_END[kind].format(id=borrower.id)}, and remove this one then; that one can be"
            f" removed as well, before or after: `branchpoint rm {borrower.id}`",
        )


def _require_given_back(journal: Journal, borrower: SessionRecord) -> None:
    """UsageError if another session is to get back, and has not yet, what this one has saved."""
    lent, last = journal.loan_of(borrower.id), last_of(journal, borrower)
    if lent is None or last is None or last.head == lent.head:
        return
    lender = journal.session(lent.session)
    raise UsageError(
        f"branch {lent.name!r} of {lender.key if lender else lent.session!r} carries on here, and"
        " is not given back yet",
        hint="try again in a moment: the notebook it is of takes it back by itself",
    )
