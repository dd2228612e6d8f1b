"""What the kernel alone knows of what is shown: which cells were run, what is done, who is busy."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.carrying import hold
from tests.support.front_end import Answer, Notebook, in_a_loop, open_notebook

from branchpoint_vmruntime.lineage_view import LineageView
from branchpoint_vmruntime.viewing import view_of


async def run(notebook: Notebook, cell: str, code: str) -> Answer:
    """Run the cell of that id, as a page of JupyterLab does."""
    content: dict[str, Any] = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    client = notebook.client
    message = client.session.msg("execute_request", content, metadata={"cellId": cell})
    client.shell_channel.send(message)
    return await notebook.answer(message["header"]["msg_id"])


async def seen(notebook: Notebook) -> LineageView:
    return await view_of(notebook.session)


def line(view: LineageView) -> list[tuple[str, int]]:
    return [(it.id, it.count) for it in view.line]


def left(view: LineageView) -> list[tuple[str, int]]:
    return [(it.id, it.count) for it in view.left]


@asynccontextmanager
async def loaded() -> AsyncGenerator[Notebook]:
    """A notebook with a cell, a checkpoint, and a cell after it."""
    async with open_notebook() as notebook:
        await run(notebook, "load", "x = 1")
        await run(notebook, "save", "%checkpoint loaded")
        await run(notebook, "break", "x = 2")
        yield notebook


@in_a_loop
async def test_the_cells_of_a_notebook_are_on_its_line() -> None:
    async with loaded() as notebook:
        view = await seen(notebook)
        assert line(view) == [("load", 1), ("save", 1), ("break", 2)]
        assert left(view) == []
        saved = view.checkpoints[-1]
        assert (saved.facts.label, saved.source) == ("loaded", "%checkpoint loaded")


@in_a_loop
async def test_the_cells_of_a_future_that_was_given_up_are_left_even_if_it_was_not_saved() -> None:
    async with loaded() as notebook:
        await run(notebook, "back", "%rollback loaded --no-safety")
        view = await seen(notebook)
        assert line(view) == [("load", 1), ("save", 1)]
        assert left(view) == [("break", 2)]
        await run(notebook, "again", "x = 3")
        view = await seen(notebook)
        assert line(view)[-1] == ("again", 2)
        assert left(view) == [("break", 2)]


@in_a_loop
async def test_the_cells_of_another_branch_are_left_until_the_notebook_is_on_it() -> None:
    async with loaded() as notebook:
        await run(notebook, "fork", "%fork 1 --names other")
        await run(notebook, "mine", "x = 4")
        assert ("mine", 3) in line(await seen(notebook))
        await run(notebook, "go", "%switch other")
        view = await seen(notebook)
        assert left(view) == [("mine", 3)]
        assert ("break", 2) in line(view)


@in_a_loop
async def test_the_end_of_a_cell_is_a_change_and_so_is_who_is_busy() -> None:
    async with open_notebook() as notebook, asyncio.timeout(120):
        before = notebook.session.changes.version
        running = await hold(notebook)
        await until(notebook, lambda view: view.branches[0].facts.busy)
        assert notebook.session.changes.version > before
        running.end()
        await notebook.answer(running.id)
        await until(notebook, lambda view: not view.branches[0].facts.busy)


async def until(notebook: Notebook, is_so: Callable[[LineageView], bool]) -> None:
    """Wait for one change after another until it is so: a change that is not told is not seen."""
    changes = notebook.session.changes
    while True:
        version = changes.version
        if is_so(await seen(notebook)):
            return
        await changes.wait(version, timeout_s=60)


@in_a_loop
async def test_what_a_cell_has_done_to_the_session_is_under_way_meanwhile() -> None:
    async with open_notebook() as notebook, asyncio.timeout(120):
        session = notebook.session
        names: list[tuple[str, str]] = []
        keep: Callable[..., Awaitable[Any]] = session.checkpoint

        async def checkpoint(*words: Any, **named: Any) -> Any:
            names.extend((it.op, it.branch) for it in session.changes.under_way)
            return await keep(*words, **named)

        session.checkpoint = checkpoint
        await notebook.run("%checkpoint loaded")
        assert names == [("checkpoint", "main")]
        assert session.changes.under_way == ()


@in_a_loop
async def test_a_preview_and_a_listing_are_nothing_under_way() -> None:
    async with loaded() as notebook:
        before = notebook.session.changes.under_way
        await notebook.run("%checkpoints")
        await notebook.run("%rollback loaded --preview")
        assert (before, notebook.session.changes.under_way) == ((), ())


@in_a_loop
async def test_a_cell_annotates_a_checkpoint() -> None:
    async with loaded() as notebook:
        answer = await notebook.run("%annotate loaded --label größe --note 'ohne NaN'")
        assert answer.text == "● größe   was loaded · ohne NaN\n"
        assert answer.record["op"] == "annotate"
        assert answer.record["checkpoint"]["label"] == "größe"
        assert answer.record["was"] == {"label": "loaded", "note": ""}
        assert answer.record["note"] == "ohne NaN"
        assert (await notebook.run("%rollback größe")).status == "ok"


@in_a_loop
async def test_a_name_that_is_not_known_is_answered_with_the_one_that_was_meant() -> None:
    async with loaded() as notebook:
        answer = await notebook.run("%annotate loadde --note x")
        assert answer.status == "error"
        assert "did you mean 'loaded'?" in answer.text
