"""Sessions as they are shown: asked of whoever has them open, else read from what is on record."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from branchpoint_nbext.refusing import OwnerGoneError
from branchpoint_vmruntime.cell_lines import cells_of_line
from branchpoint_vmruntime.control_facts import to_json
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.database import Database
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.lineage.schema import SCHEMA
from branchpoint_vmruntime.lineage_view import CellText
from branchpoint_vmruntime.locks import holder, holders
from branchpoint_vmruntime.session_control import is_answered
from branchpoint_vmruntime.viewing import view_on_record

T = TypeVar("T")
# A LineageView as JSON: it goes on to pages as its owner has written it.
View = Mapping[str, Any]

# Memory is read for it, milliseconds for each GB; an owner that is held up is not waited for long.
_LOOK_S = 10.0


async def read(home: Home, read: Callable[[Journal], T]) -> T:
    """Read what is on record, in a thread. BranchpointError as `Journal` raises it."""

    def reading() -> T:
        with Journal.read(home.database) as journal:
            return read(journal)

    return await asyncio.to_thread(reading)


async def session_on_record(home: Home, session: str) -> SessionRecord:
    """The session of that id; UnknownNameError, before anything is done with it, if there is none.

    An id names files: what came from outside is none until it was found on record.
    """
    return await read(home, lambda journal: known_session(journal, session))


def known_session(journal: Journal, session: str) -> SessionRecord:
    """The session of that id; UnknownNameError if there is none."""
    record = journal.session(SessionId(session))
    if record is None:
        raise UnknownNameError("session", session, tuple(it.id for it in journal.sessions()))
    return record


async def view_now(home: Home, session: SessionId) -> View:
    """A session as it is now. It has to be on record."""
    try:
        async with ControlClient(home.control(session)) as owner:
            return await look(owner)
    except BranchpointError:
        # Nobody has it open, or not for long enough, or what has is of another version.
        return await view_recorded(home, session)


async def view_recorded(home: Home, session: SessionId) -> View:
    """A session by what is on record of it alone; UnknownNameError if nothing is."""
    return to_json(await asyncio.to_thread(view_on_record, home, session))


async def look(owner: ControlClient) -> View:
    """A session as its owner tells it."""
    return await owner.ask("view", timeout_s=_LOOK_S)


async def ask(home: Home, session: SessionId, op: str, fields: Mapping[str, Any]) -> View:
    """Have the owner of a session do something, however long that takes; what it answers.

    What it refuses is raised in its words. UsageError if nobody has the session open,
    OwnerGoneError if its owner ends meanwhile. Whoever stops waiting calls nothing off.
    """
    try:
        async with ControlClient(home.control(session)) as owner:
            return await owner.ask(op, timeout_s=None, **fields)
    except BranchpointError as error:
        # Its own refusals are of a kind; this may be that it hung up.
        if type(error) is BranchpointError and not await is_answered(home, session):
            raise OwnerGoneError(
                "what had that session open has just ended, and may not have done it",
                hint="look at what the session is like now; open its notebook to go on",
            ) from error
        raise


def cells_recorded(journal: Journal, session: SessionId, of: str) -> Sequence[CellText]:
    """The cells of a branch, or up to a checkpoint, as far as they are on record; oldest first.

    UnknownNameError if there is neither.
    """
    checkpoints = journal.checkpoints(session)
    heads = {str(it.name): it.head for it in journal.branches(session)}
    head = heads.get(of) or resolve(of, checkpoints).id
    line = cells_of_line(checkpoints, head)
    return [CellText(id=it.id, count=it.count, source=it.source) for it in line]


class RecordMarks:
    """Tells whether anything of a session may have changed on record, without reading it.

    In a thread of its own: a connection to SQLite's file stays with the thread that made it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="branchpoint-record")
        self._database: Database | None = None
        self._inode = 0
        # The numbers of another server, or of another connection, may be the same.
        self._made, self._opened = secrets.token_hex(8), 0

    async def mark(self, home: Home, session: SessionId) -> object:
        """Something that is another each time that something may have changed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._mark, home, session)

    async def etag(self, home: Home) -> str:
        """The same of all sessions together, as HTTP has it: no other server's is the same."""
        loop = asyncio.get_running_loop()
        mark = await loop.run_in_executor(self._thread, self._mark_of_all, home)
        return f'"{hashlib.sha256(repr(mark).encode()).hexdigest()}"'

    async def close(self) -> None:
        """Let go of the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _mark(self, home: Home, session: SessionId) -> object:
        # The lock besides: an owner lets go of it some time after its socket, or is killed.
        return self._version(home), holder(home.layers / session)

    def _mark_of_all(self, home: Home) -> object:
        version = self._version(home), self._made, self._opened
        with contextlib.suppress(FileNotFoundError):
            return version, sorted(holders(home.layers.iterdir()).items())
        return version

    def _version(self, home: Home) -> tuple[int, int]:
        try:
            inode = home.database.stat().st_ino
        except OSError:
            self._close()
            return 0, 0
        if self._database is None or inode != self._inode:
            self._close()
            self._database, self._inode = Database(home.database, SCHEMA, read_only=True), inode
            self._opened += 1
        # Its own number for each connection: it grows with what others write.
        return inode, self._database.rows("PRAGMA data_version")[0][0]

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
