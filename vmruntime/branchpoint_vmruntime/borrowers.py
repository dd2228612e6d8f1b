"""Whether somebody has a session open that continues a branch of another, or is about to.

Nobody tells a lender when that ends: it looks, so that a process that was killed, or a computer
that was switched off, gives back as well.
"""

import contextlib
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from branchpoint_vmruntime.errors import SessionBusyError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchRecord, BranchState
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.loan import given_back, last_of
from branchpoint_vmruntime.locks import closed_session, holder, tidying
from branchpoint_vmruntime.outside.authority import FILE as AUTHORITY
from branchpoint_vmruntime.outside.outside import PLACEHOLDERS
from branchpoint_vmruntime.storage.new_file import new_file

# From the click to a kernel that is up, on a busy computer; and for a kernel that is restarted.
EXPECTED_WITHIN_S = 120.0
AWAITED = "awaited"
RESTARTED = "restarted"


class Borrowers(Protocol):
    """Those a session has lent branches to."""

    def expect(self, lender: str, borrower: str) -> None:
        """A branch was lent just now: the borrower will be opened any moment."""
        ...

    def gone(self, borrower: str, key: str, *, asked: bool = False) -> AbstractContextManager[bool]:
        """Whether nobody has it open; then nobody can open it until this is left.

        One that is still to be opened is not gone, unless somebody has `asked` for the branch.
        """
        ...


class NoBorrowers:
    """For a session whose borrowers, if it has any, cannot be looked for: all are gone."""

    def expect(self, lender: str, borrower: str) -> None:
        """Nothing is waited for."""

    @contextmanager
    def gone(self, borrower: str, key: str, *, asked: bool = False) -> Generator[bool]:
        """It is."""
        yield True


class HomeBorrowers:
    """Implements `Borrowers` by the locks and files of a home.

    `holds_tidying` tells that whoever asks tidies up already, as `locks.tidying` has it.
    """

    def __init__(self, home: Home, *, holds_tidying: bool = False) -> None:
        self._home = home
        self._holds_tidying = holds_tidying

    def expect(self, lender: str, borrower: str) -> None:
        """Note that it will be opened any moment, and give it what its first machine will hold.

        What runs in there has read the certificate of the lender's edge and its placeholders.
        """
        folder = self._home.session(borrower)
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / AWAITED).touch()
            for name in (AUTHORITY, PLACEHOLDERS):
                _copy(self._home.session(lender) / name, folder / name)

    @contextmanager
    def gone(self, borrower: str, key: str, *, asked: bool = False) -> Generator[bool]:
        """Whether nobody has it open, nor has just been promised it.

        A promise that nobody has come for yet counts for nothing once the branch is `asked` for.
        """
        expected = was_restarted if asked else is_expected
        # First what disturbs nobody.
        if holder(self._home.layers / borrower) is not None or expected(self._home, borrower):
            yield False
            return
        with contextlib.ExitStack() as held:
            try:
                if not self._holds_tidying:
                    held.enter_context(tidying(self._home, wait=False))
                held.enter_context(closed_session(self._home, borrower, key))
            except (BlockingIOError, SessionBusyError):
                there = False
            else:
                there = True
                # Until it is lent anew: whoever comes now is one that finds it gone on.
                has_come(self._home, borrower)
            yield there


def as_it_is(home: Home, journal: Journal, branch: BranchRecord) -> BranchRecord:
    """A branch on record; one whose borrower has ended as it will be taken back. Nothing is done.

    Its lender, or whoever opens that, puts it on record.
    """
    if branch.state is not BranchState.LENT:
        return branch
    borrower = journal.session(branch.lent_to) if branch.lent_to else None
    if borrower is None:
        return given_back(branch, None)
    if holder(home.layers / borrower.id) is not None or is_expected(home, borrower.id):
        return branch
    return given_back(branch, last_of(journal, borrower))


def is_expected(home: Home, session: str) -> bool:
    """Whether a session that nobody has open will be open in a moment."""
    folder = home.session(session)
    return _is_young(folder / AWAITED) or _is_young(folder / RESTARTED)


def was_restarted(home: Home, session: str) -> bool:
    """Whether it was a moment ago that the user restarted the session's kernel."""
    return _is_young(home.session(session) / RESTARTED)


def has_come(home: Home, session: str) -> None:
    """The session is open: it need not be waited for."""
    with contextlib.suppress(OSError):
        (home.session(session) / AWAITED).unlink(missing_ok=True)


def _copy(file: Path, place: Path) -> None:
    if file.exists() and not place.exists():
        with new_file(place) as target:
            target.write(file.read_bytes())


def _is_young(mark: Path) -> bool:
    try:
        age_s = time.time() - mark.stat().st_mtime
    except OSError:
        return False
    # A clock that was set back does not make what was long ago recent.
    return abs(age_s) < EXPECTED_WITHIN_S
