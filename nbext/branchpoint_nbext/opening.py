"""POST branchpoint/open-branch: a copy of the document that continues a branch, which is lent.

The copy has the cells up to where the branch was forked, or all that were run on one that was
forked from nothing. A kernel that is started for it has that branch, from its head; once that
kernel has ended the branch is given back.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import authenticated

from branchpoint_nbext.documents import Whence, copy_up_to
from branchpoint_nbext.handling import BranchpointHandler, may
from branchpoint_nbext.notebooks import Notebooks, named_for_all
from branchpoint_nbext.orders import BranchToOpen, branch_to_open
from branchpoint_nbext.refusing import RefusalError, in_words
from branchpoint_nbext.views import ask, known_session, read
from branchpoint_vmruntime.borrowing import lend_on_record
from branchpoint_vmruntime.cell_lines import cells_of_line
from branchpoint_vmruntime.control_facts import from_json
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchRecord, BranchState, Cell, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage_view import CellText
from branchpoint_vmruntime.locks import holder

# Between looking for a free name and writing there nobody else of ours does.
_naming = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class Found:
    """What is on record of a branch that is to be opened, and the keys that have a session.

    `line` are the cells run up to where it began, as far as they are on record, `began` the label
    of the checkpoint there.
    """

    session: SessionRecord
    branch: BranchRecord
    line: list[Cell]
    began: str
    keys: frozenset[str]


class OpenBranchHandler(BranchpointHandler):
    """Makes a notebook that continues a branch."""

    @authenticated
    @may("execute")
    async def post(self) -> None:
        """Answer with `{"path", "cells"}`: where the copy is, and how many cells it has.

        Nothing is there if the branch cannot be lent.
        """
        may_write = self.authorizer.is_authorized(self, self.current_user, "write", "contents")
        if not await ensure_async(may_write):
            raise RefusalError(HTTPStatus.FORBIDDEN, "this user may not write notebooks here")
        with in_words():
            await self._open(branch_to_open(self.request.body))

    async def _open(self, wanted: BranchToOpen) -> None:
        if named := named_for_all():
            raise UsageError(
                f"every notebook of this server continues the session {named!r}",
                hint="start the server without BRANCHPOINT_SESSION",
            )
        home, notebooks = self.home, Notebooks.of(self)
        found = await read(home, lambda journal: find(journal, wanted))
        path = await self._notebook(notebooks, wanted, found)
        model = await ensure_async(notebooks.contents.get(path, content=True, type="notebook"))
        whence = Whence(
            session=found.session.id,
            branch=found.branch.name,
            notebook=path,
            checkpoint=found.began,
        )
        content = copy_up_to(model["content"], await line_now(home, found), whence)
        made = await self._write(notebooks, path, found, content)
        try:
            await lend(home, found, notebooks.key_of(made))
        except Exception:
            await notebooks.withdraw(made)
            raise
        self.answer({"path": made, "cells": len(content["cells"])})

    async def _notebook(self, notebooks: Notebooks, wanted: BranchToOpen, found: Found) -> str:
        if wanted.path is not None:
            return await notebooks.checked(wanted.path)
        path = notebooks.path_of(found.session.key)
        if path is None:
            raise UsageError(
                f"the session {found.session.key!r} has no notebook below this server's folder",
                hint="open the branch from the server that shows its notebook",
            )
        return await notebooks.checked(path)

    async def _write(
        self, notebooks: Notebooks, path: str, found: Found, content: Mapping[str, Any]
    ) -> str:
        """Where the copy is, beside the notebook it is of, under a name that nothing has yet."""
        wanted = f"{path.removesuffix('.ipynb')}-{found.branch.name}.ipynb"
        model = {"type": "notebook", "format": "json", "content": content}
        async with _naming:
            made = await notebooks.free_path(wanted, found.keys.__contains__)
            await ensure_async(notebooks.contents.save(model, made))
        return made


def find(journal: Journal, wanted: BranchToOpen) -> Found:
    """What is on record of a branch. Refused before anything is made if it cannot be continued."""
    session = known_session(journal, wanted.session)
    branches = {str(it.name): it for it in journal.branches(session.id)}
    branch = branches.get(wanted.branch)
    if branch is None:
        raise UnknownNameError("branch", wanted.branch, tuple(branches))
    if branch.state is BranchState.DROPPED:
        raise UsageError(
            f"branch {branch.name!r} was dropped", hint="fork from one of its checkpoints"
        )
    checkpoints = journal.checkpoints(session.id)
    # What was forked from nothing has all that was done on it.
    began = branch.head if branch.parent is None else branch.origin
    labels = {it.id: it.label for it in checkpoints}
    return Found(
        session=session,
        branch=branch,
        line=cells_of_line(checkpoints, began),
        began=labels.get(began, ""),
        keys=frozenset(it.key for it in journal.sessions()),
    )


async def line_now(home: Home, found: Found) -> list[Cell]:
    """The cells that a copy is to have, also those that were run since what is on record."""
    if found.branch.parent is not None or holder(home.layers / found.session.id) is None:
        return found.line
    told = await ask(home, found.session.id, "cells", {"of": found.branch.name})
    cells = (from_json(CellText, it) for it in told["cells"])
    return [Cell(id=it.id, count=it.count, source=it.source) for it in cells]


async def lend(home: Home, found: Found, key: str) -> None:
    """Lend a branch to the session of a key. BranchpointError if it stays where it is."""
    if holder(home.layers / found.session.id) is None:
        await lend_on_record(home, found.session.id, found.branch.name, key)
        return
    await ask(home, found.session.id, "lend", {"branch": found.branch.name, "key": key})
