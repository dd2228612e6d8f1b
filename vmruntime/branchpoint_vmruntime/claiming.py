"""Makes a session this process's own, so that no other has it open at the same time."""

import contextlib
import hashlib
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from branchpoint_vmruntime.errors import NameTakenError, SessionBusyError, StorageError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId, SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import in_use, wait_for_tidying

_MOST_BESIDE = 99


@contextmanager
def claim(
    home: Home, journal: Journal, key: str, *, alone: bool = False
) -> Generator[SessionRecord]:
    """Own the session of that key, or a new one, until the end of the `with`.

    If another process owns it, one beside it, named after it; SessionBusyError, saying who has it,
    if it is to be that one `alone`.
    """
    for attempt in range(1, 2 if alone else _MOST_BESIDE + 1):
        name = as_key(key) if attempt == 1 else f"{as_key(key)} ({attempt})"
        with contextlib.ExitStack() as stack:
            try:
                record = stack.enter_context(_held(home, journal, name))
            except SessionBusyError:
                if alone:
                    raise
                continue
            yield record
            return
    raise SessionBusyError(f"too many kernels are open on {key!r}", hint="close some of them")


def as_key(text: str) -> str:
    r"""The key as it is kept: text, also for a notebook at a path that is not UTF-8.

    >>> as_key("/notes/\udcfc.ipynb")
    '/notes/\\udcfc.ipynb'
    """
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def _held(home: Home, journal: Journal, key: str) -> Generator[SessionRecord]:
    while True:
        record = journal.session_by_key(key) or _new_session(journal, key)
        if record is None:
            continue
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_locked(home, record))
            except FileNotFoundError:
                continue
            # It may have been removed since it was found.
            if journal.session(record.id) is not None:
                yield record
                return
            with contextlib.suppress(OSError):
                (home.layers / record.id).rmdir()


@contextmanager
def _locked(home: Home, record: SessionRecord) -> Generator[None]:
    folder = home.layers / record.id
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"session {record.key!r} cannot be opened: {error}",
            hint="free some space on that disk, or check its permissions",
        ) from error
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, wait=False))
        except BlockingIOError:
            # By its owner, or for a moment by somebody who tidies up.
            wait_for_tidying(home)
            try:
                stack.enter_context(locked(folder, wait=False))
            except BlockingIOError as error:
                raise in_use(folder, record.key) from error
        yield


def new_session(key: str, *, start: CheckpointId | None = None) -> SessionRecord:
    """A session of that key that is on no record yet."""
    digest = hashlib.sha256(f"{key}{secrets.token_hex(8)}".encode()).hexdigest()
    now = datetime.now(UTC)
    return SessionRecord(id=SessionId(digest[:12]), key=key, created_at=now, start=start)


def _new_session(journal: Journal, key: str) -> SessionRecord | None:
    """None if another process was quicker."""
    record = new_session(key)
    try:
        journal.add_session(record)
    except NameTakenError:
        return None
    return record
