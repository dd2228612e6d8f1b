"""POST branchpoint/act and branchpoint/ask: what the owner of a session is asked for by pages."""

from collections.abc import Sequence

from tornado.web import authenticated

from branchpoint_nbext.handling import BranchpointHandler, may
from branchpoint_nbext.orders import ACTIONS, QUESTIONS, Order, order
from branchpoint_nbext.refusing import in_words
from branchpoint_nbext.views import View, ask, cells_recorded, read, session_on_record
from branchpoint_vmruntime.control_facts import to_json
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.lineage_view import CellText
from branchpoint_vmruntime.session_control import is_answered

# By this its owner knows that it was asked for in a page, and tells the next cell so.
FROM_A_PAGE = {"asked": "page"}


class ActHandler(BranchpointHandler):
    """Has something done to a session, one of ACTIONS."""

    @authenticated
    @may("execute")
    async def post(self) -> None:
        """Answer with `{"done": ...}`, the owner's facts, once it is done.

        A page that goes away meanwhile calls nothing off.
        """
        with in_words():
            wanted = order(self.request.body, ACTIONS)
            self.answer({"done": await self.ordered(wanted, **FROM_A_PAGE)})

    async def ordered(self, wanted: Order, **more: str) -> View:
        """Put it to the session's owner."""
        fields = {**wanted.fields, **more}
        return await ask(self.home, await self.known(wanted), wanted.op, fields)

    async def known(self, wanted: Order) -> SessionId:
        """Its session, which is on record."""
        return (await session_on_record(self.home, wanted.session)).id


class AskHandler(ActHandler):
    """Asks something about a session, one of QUESTIONS."""

    @authenticated
    @may("read")
    async def post(self) -> None:
        """Answer with what the owner tells, or of cells, without one, with what is on record."""
        with in_words():
            wanted = order(self.request.body, QUESTIONS)
            if wanted.op == "cells" and not await is_answered(self.home, await self.known(wanted)):
                self.answer({"cells": [to_json(it) for it in await self._recorded(wanted)]})
            else:
                self.answer(await self.ordered(wanted))

    async def _recorded(self, wanted: Order) -> Sequence[CellText]:
        of = wanted.fields["of"]
        return await read(self.home, lambda journal: cells_recorded(journal, wanted.session, of))
