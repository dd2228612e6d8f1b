"""GET branchpoint/sessions, view, lineage, lineage.svg: what there is, changing nothing."""

import asyncio
import importlib
from dataclasses import dataclass
from http import HTTPStatus

from tornado.web import authenticated

from branchpoint_nbext.handling import BranchpointHandler, may
from branchpoint_nbext.living import LIVE, Live
from branchpoint_nbext.notebooks import Notebooks
from branchpoint_nbext.payloads import lineage_payload, overview_payload
from branchpoint_nbext.refusing import in_words
from branchpoint_nbext.views import known_session, read, view_now
from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, Operation, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.overview import overview

# matplotlib's settings are global: two drawings at once would see each other's.
_drawing = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class Lineage:
    """All the journal knows of one session."""

    session: SessionRecord
    checkpoints: list[Checkpoint]
    branches: list[BranchRecord]
    operations: list[Operation]


class SessionsHandler(BranchpointHandler):
    """Every session. Pages ask each second: what has not changed is not put together again."""

    _etag = ""

    @authenticated
    @may("read")
    async def get(self) -> None:
        """Answer with a SessionsPayload; an empty list where no session has ever been."""
        live: Live = self.settings[LIVE]
        with in_words():
            if not live.closing:
                # What changes while the list is made is in the next one.
                self._etag = await live.marks.etag(self.home)
                self.set_etag_header()
            if self.check_etag_header():
                self.set_status(HTTPStatus.NOT_MODIFIED)
                self.finish()
                return
            seen = await asyncio.to_thread(overview, self.home)
        notebooks = Notebooks.of(self)
        self.answer(overview_payload(seen, notebooks.path_of))

    def compute_etag(self) -> str | None:
        """That of what is on record, not of the words of an answer."""
        return self._etag or None


class ViewHandler(BranchpointHandler):
    """One session as it is shown."""

    @authenticated
    @may("read")
    async def get(self) -> None:
        """Answer with a LineageView."""
        session = await self.session_asked_for()
        with in_words():
            self.answer(await view_now(self.home, session))


class LineageHandler(BranchpointHandler):
    """One session's tree, as it is on record."""

    @authenticated
    @may("read")
    async def get(self) -> None:
        """Answer with a LineagePayload."""
        lineage = await _lineage(self)
        self.answer(
            lineage_payload(
                lineage.session, lineage.checkpoints, lineage.branches, lineage.operations
            )
        )


class PictureHandler(BranchpointHandler):
    """One session's tree, drawn."""

    @authenticated
    @may("read")
    async def get(self) -> None:
        """Answer with an SVG."""
        lineage = await _lineage(self)
        async with _drawing:
            picture = await asyncio.to_thread(_drawn, lineage)
        self.finish(picture, set_content_type="image/svg+xml")


async def _lineage(handler: BranchpointHandler) -> Lineage:
    wanted = handler.get_query_argument("session", strip=False)

    def found(journal: Journal) -> Lineage:
        record = known_session(journal, wanted)
        return Lineage(
            session=record,
            checkpoints=journal.checkpoints(record.id),
            branches=journal.branches(record.id),
            operations=journal.operations(record.id),
        )

    with in_words():
        return await read(handler.home, found)


def _drawn(lineage: Lineage) -> bytes:
    # Not before somebody wants one: a third of a second of each server's start.
    pictures = importlib.import_module("branchpoint_vmruntime.lineage.picture")
    return pictures.svg(pictures.draw(lineage.checkpoints, lineage.branches, lineage.operations))
