"""Opening a branch as a notebook: a copy beside the first, and the branch lent to it."""

import asyncio
import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session
from tests.unit.nbext.serving import Answer, Server, owner_of
from tests.unit.nbext.test_documents import CELLS
from tornado.web import HTTPError

from branchpoint_nbext.documents import NOTE
from branchpoint_nbext.notebooks import Notebooks
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import BranchState, Cell, CheckpointKind, Moment
from branchpoint_vmruntime.lineage.journal import Journal

RAN = ("load", "fork", "after")
FORKED = Cell(id="fork", count=2, source="%fork 2")


@pytest.fixture
def notebook(server: Server) -> Generator[Journal]:
    """A notebook in a folder, with a session on record in which it was forked."""
    path = server.root / "sub" / "a.ipynb"
    path.parent.mkdir()
    nb: dict[str, Any] = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(nb))
    point = replace(
        a_checkpoint("forked", kind=CheckpointKind.FORK_POINT),
        moment=Moment(count=1, cell=FORKED, done=(Cell(id="load", count=1, source="load"),)),
    )
    with Journal.open(server.home.database) as journal:
        journal.add_session(a_session(key=str(path)))
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        journal.add_checkpoint(point, advance=a_branch().name)
        journal.put_branch(a_branch("ridge", "forked", origin="forked", parent="main", index=1))
        journal.put_branch(a_branch("gone", "forked", parent="main", state=BranchState.DROPPED))
        yield journal


async def open_branch(server: Server, branch: str = "ridge", **fields: Any) -> Answer:
    return await server.post_beside(
        "/branchpoint/open-branch", session=a_session().id, branch=branch, **fields
    )


def files(server: Server) -> list[str]:
    return sorted(it.name for it in (server.root / "sub").glob("*.ipynb"))


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_a_branch_is_lent_to_a_copy_of_the_document_up_to_the_fork(server: Server) -> None:
    async with owner_of(server.home) as owner:
        answer = await open_branch(server)
        assert (answer.status, answer.json) == (200, {"path": "sub/a-ridge.ipynb", "cells": 4})
        made = server.root / "sub" / "a-ridge.ipynb"
        assert owner.heard == [{"op": "lend", "branch": "ridge", "key": str(made)}]
    document = json.loads(made.read_text())
    nbformat.validate(document)
    assert [cell["id"] for cell in document["cells"]] == ["title", "load", "now-fit", "fork"]
    assert document["metadata"][NOTE] == {
        "session": a_session().id,
        "branch": "ridge",
        "notebook": "sub/a.ipynb",
        "checkpoint": "forked",
    }


@in_a_loop
async def test_a_branch_that_was_forked_from_nothing_has_all_that_was_done_on_it(
    server: Server, notebook: Journal
) -> None:
    notebook.put_branch(replace(a_branch("main", "forked"), state=BranchState.PAUSED))
    assert (await open_branch(server, "main")).json["cells"] == 4


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_where_somebody_has_it_open_that_is_also_what_no_checkpoint_has(
    server: Server,
) -> None:
    async with owner_of(server.home) as owner:
        owner.cells = [{"id": it, "count": n, "source": it} for n, it in enumerate(RAN, 1)]
        assert (await open_branch(server, "main")).json["cells"] == 5
        assert owner.cells_asked == ["main"]


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_a_fork_has_what_was_done_before_it_whatever_was_run_there_since(
    server: Server,
) -> None:
    async with owner_of(server.home) as owner:
        owner.cells = [{"id": it, "count": n, "source": it} for n, it in enumerate(RAN, 1)]
        assert (await open_branch(server, "ridge")).json["cells"] == 4


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_the_notebook_may_be_named_that_has_another_name_by_now(server: Server) -> None:
    (server.root / "sub" / "a.ipynb").rename(server.root / "b.ipynb")
    async with owner_of(server.home):
        assert (await open_branch(server)).status == 404
        assert (await open_branch(server, path="b.ipynb")).json["path"] == "b-ridge.ipynb"


@in_a_loop
async def test_what_is_there_already_is_never_written_over(
    server: Server, notebook: Journal
) -> None:
    taken = server.root / "sub" / "a-ridge.ipynb"
    taken.write_text("mine")
    # Nor is a session carried on whose notebook is not there any more.
    notebook.add_session(a_session("left", str(server.root / "sub" / "a-ridge-2.ipynb")))
    async with owner_of(server.home):
        answers = await asyncio.gather(*(open_branch(server) for _ in range(3)))
    assert sorted(it.json["path"] for it in answers) == [
        f"sub/a-ridge-{number}.ipynb" for number in (3, 4, 5)
    ]
    assert taken.read_text() == "mine"


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_a_branch_that_cannot_be_lent_leaves_no_copy(server: Server) -> None:
    async with owner_of(server.home) as owner:
        owner.refuses = UsageError("a cell runs in ridge", hint="wait for it")
        answer = await open_branch(server)
    assert answer.status == 400
    assert answer.json == {"message": "a cell runs in ridge", "hint": "wait for it"}
    assert files(server) == ["a.ipynb"]


@in_a_loop
async def test_a_copy_that_is_withdrawn_is_not_put_into_the_trash(tmp_path: Path) -> None:
    contents = Mock(**{"delete.side_effect": HTTPError(400, "send2trash failed")})
    notebooks = Notebooks(contents, tmp_path, lambda _: str(tmp_path))
    copy = tmp_path / "a-ridge.ipynb"
    copy.write_text("{}")
    await notebooks.withdraw("a-ridge.ipynb")
    assert not copy.exists()
    # Of one that is no file here, nothing that goes wrong hides why it was withdrawn.
    await notebooks.withdraw("a-ridge.ipynb")
    contents.delete.assert_called_once_with("a-ridge.ipynb")


@in_a_loop
async def test_a_branch_of_a_session_that_is_closed_is_lent_on_record(
    server: Server, notebook: Journal
) -> None:
    notebook.put_branch(
        a_branch("ridge", "forked", origin="forked", parent="main", state=BranchState.PAUSED)
    )
    answer = await open_branch(server)
    assert (answer.status, answer.json["path"]) == (200, "sub/a-ridge.ipynb")
    borrower = notebook.session_by_key(str(server.root / "sub" / "a-ridge.ipynb"))
    (lent,) = notebook.lent()
    assert borrower is not None
    assert (lent.name, lent.lent_to, borrower.start) == ("ridge", borrower.id, "forked")
    async with owner_of(server.home, borrower.id):
        again = await open_branch(server)
    assert again.status == 400
    assert "open as 'a-ridge.ipynb'" in again.json["message"]
    assert files(server) == ["a-ridge.ipynb", "a.ipynb"]


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize(
    ("branch", "status", "words"),
    [("nobody", 404, "there is no branch 'nobody'"), ("gone", 400, "was dropped")],
)
@in_a_loop
async def test_a_branch_that_cannot_be_continued_is_not_asked_for(
    server: Server, branch: str, status: int, words: str
) -> None:
    async with owner_of(server.home) as owner:
        answer = await open_branch(server, branch)
        assert (answer.status, owner.heard) == (status, [])
    assert words in answer.json["message"]
    assert files(server) == ["a.ipynb"]


@in_a_loop
async def test_a_session_without_a_notebook_of_the_servers_says_so(
    server: Server, journal: Journal
) -> None:
    assert journal.sessions()
    async with owner_of(server.home):
        answer = await open_branch(server, "main")
    assert answer.status == 400
    assert "has no notebook below this server's folder" in answer.json["message"]


@pytest.mark.usefixtures("notebook")
@in_a_loop
async def test_a_file_that_is_no_notebook_is_not_copied(server: Server) -> None:
    (server.root / "b.ipynb").write_text("no notebook")
    async with owner_of(server.home) as owner:
        answer = await open_branch(server, path="b.ipynb")
        assert (answer.status, owner.heard) == (400, [])
    assert set(answer.json) == {"message", "hint"}
