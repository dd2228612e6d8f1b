"""The routes: who asks must be logged in to the Jupyter server; answers are read from the journal.

GET branchpoint/sessions                   every session
GET branchpoint/lineage?session=ID         one session's checkpoints, branches, operations
GET branchpoint/lineage.svg?session=ID     the same as a picture
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated

from branchpoint_nbext.payloads import lineage_payload, sessions_payload
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    Checkpoint,
    Operation,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.picture import draw, svg

T = TypeVar("T")

# matplotlib's settings are global: two drawings at once would see each other's.
_drawing = asyncio.Lock()


class BranchpointHandler(APIHandler):
    """What our routes have in common."""

    auth_resource = "branchpoint"

    async def read(self, read: Callable[[Journal], T]) -> T:
        """Read from the journal in a thread; what goes wrong becomes a status and a message."""
        try:
            return await asyncio.to_thread(_read, read)
        except UnknownNameError as error:
            raise HTTPError(HTTPStatus.NOT_FOUND, log_message=str(error)) from error
        except BranchpointError as error:
            raise HTTPError(HTTPStatus.INTERNAL_SERVER_ERROR, log_message=str(error)) from error

    async def lineage(self) -> "Lineage":
        """What the journal knows of the session that is asked for."""
        session = SessionId(self.get_query_argument("session"))
        return await self.read(lambda journal: _lineage(journal, session))


class SessionsHandler(BranchpointHandler):
    """Every session."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with a SessionsPayload; an empty list where no session has ever been."""
        exists = Home.default().database.exists()
        records = await self.read(Journal.sessions) if exists else []
        self.finish(json.dumps(sessions_payload(records)))


class LineageHandler(BranchpointHandler):
    """One session's tree."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with a LineagePayload."""
        lineage = await self.lineage()
        answer = lineage_payload(
            lineage.session, lineage.checkpoints, lineage.branches, lineage.operations
        )
        self.finish(json.dumps(answer))


class PictureHandler(BranchpointHandler):
    """One session's tree, drawn."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with an SVG."""
        lineage = await self.lineage()
        async with _drawing:
            picture = await asyncio.to_thread(_drawn, lineage)
        self.finish(picture, set_content_type="image/svg+xml")


@dataclass(frozen=True, slots=True)
class Lineage:
    """All the journal knows of one session."""

    session: SessionRecord
    checkpoints: list[Checkpoint]
    branches: list[BranchRecord]
    operations: list[Operation]


ROUTES: tuple[tuple[str, type[BranchpointHandler]], ...] = (
    ("branchpoint/sessions", SessionsHandler),
    ("branchpoint/lineage", LineageHandler),
    (r"branchpoint/lineage\.svg", PictureHandler),
)


def _read(read: Callable[[Journal], T]) -> T:
    with Journal.read(Home.default().database) as journal:
        return read(journal)


def _lineage(journal: Journal, wanted: SessionId) -> Lineage:
    sessions = {session.id: session for session in journal.sessions()}
    if wanted not in sessions:
        raise UnknownNameError("session", wanted, tuple(sessions))
    return Lineage(
        session=sessions[wanted],
        checkpoints=journal.checkpoints(wanted),
        branches=journal.branches(wanted),
        operations=journal.operations(wanted),
    )


def _drawn(lineage: Lineage) -> bytes:
    return svg(draw(lineage.checkpoints, lineage.branches, lineage.operations))
