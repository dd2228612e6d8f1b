"""One machine's traffic in the ledger: an entry before it leaves, an outcome after."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

from branchpoint_vmruntime.errors import BranchpointError, StorageError
from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome
from branchpoint_vmruntime.outside.facts import Who
from branchpoint_vmruntime.outside.passage import Passage
from branchpoint_vmruntime.outside.seams import Book

log = logging.getLogger(__name__)

LONGEST_URL = 2000
_LONGEST_REASON = 1000


class Account:
    """Writes entries for one machine."""

    def __init__(self, ledger: Book, who: Who) -> None:
        self._ledger = ledger
        self.who = who

    def draft(
        self,
        kind: EntryKind,
        method: str,
        url: str,
        *,
        decision: Decision = Decision.ALLOWED,
        reason: str = "",
        key: str = "",
        fingerprint: str = "",
    ) -> Draft:
        """An entry about this machine, as of now."""
        return Draft(
            session=self.who.session,
            branch=self.who.branch,
            incarnation=self.who.incarnation,
            checkpoint=self.who.checkpoint(),
            kind=kind,
            decision=decision,
            method=method[:64],
            url=url[:LONGEST_URL],
            reason=reason[:_LONGEST_REASON],
            key=key,
            fingerprint=fingerprint,
        )

    def refused(self, kind: EntryKind, method: str, url: str, reason: str) -> None:
        """Write that something was not let out. A ledger that cannot be written lets it be."""
        draft = self.draft(kind, method, url, decision=Decision.REFUSED, reason=reason)
        try:
            self._ledger.note(draft)
        except StorageError as error:
            log.warning("a refusal is not in the ledger: %s", error)

    def failed(self, draft: Draft, passage: Passage, error: BranchpointError) -> None:
        """Write of something allowed that did not get as far as to be begun. StorageError."""
        self._ledger.note(draft, passage.failed(error))

    @contextmanager
    def entry(self, draft: Draft, passage: Passage) -> Generator[None]:
        """The entry is there before the block begins, its outcome when it ends, however it does.

        StorageError, and the block is not begun, if the ledger cannot be written.
        """
        # To flush an entry to the disk takes longer than many a request. One that changes nothing
        # over there need only outlive this process, not a power cut.
        number = self._ledger.note(draft) if passage.safe else self._ledger.begin(draft)
        with self.ending(passage, lambda outcome: self._ledger.end(number, outcome)):
            yield

    @contextmanager
    def ending(self, passage: Passage, write: Callable[[Outcome], None]) -> Generator[None]:
        """Hands the outcome to `write` when the block ends, however it does."""
        try:
            yield
        except BaseException as error:
            _quietly(write, passage.failed(error))
            raise
        _quietly(write, passage.ended())


def _quietly(write: Callable[[Outcome], None], outcome: Outcome) -> None:
    """What took place took place; an entry without an outcome is taken for unknown."""
    try:
        write(outcome)
    except StorageError as error:
        log.warning("an outcome is not in the ledger: %s", error)
