"""Going back by cells through the whole proxy: undo, automatic checkpoints, previews."""

import pytest
from tests.support.carrying import start
from tests.support.fake_session import FakeSession
from tests.support.front_end import Notebook, in_a_loop, open_notebook

from branchpoint_vmruntime.errors import StorageError
from branchpoint_vmruntime.lineage import Cell, Checkpoint, CheckpointKind


async def sources_by_node(notebook: Notebook) -> list[tuple[Cell | None, str]]:
    points = notebook.session.checkpoints()
    return [(it.moment.cell, it.label) for it in points if it.kind is CheckpointKind.AUTO]


async def value(notebook: Notebook, expression: str) -> str:
    return (await notebook.run(f"print({expression})")).text.strip()


@in_a_loop
async def test_cells_sent_at_once_are_each_followed_by_a_checkpoint_of_their_own() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        sent = [notebook.send(f"x = {number}") for number in range(3)]
        for message_id in sent:
            await notebook.answer(message_id)
        await notebook.run("%checkpoints")
        nodes = await sources_by_node(notebook)
        assert [cell for cell, _ in nodes] == [
            Cell(id="", count=0, source="%autocheckpoint on"),
            *(Cell(id="", count=number + 1, source=f"x = {number}") for number in range(3)),
        ]


@in_a_loop
async def test_magics_and_silent_runs_are_not_counted() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        before = len(notebook.session.checkpoints())
        await notebook.run("%branches")
        await notebook.run("x = 1", silent=True)
        await notebook.run("x = 1", store_history=False)
        await notebook.run("%checkpoints")
        assert len(notebook.session.checkpoints()) == before


@in_a_loop
async def test_a_cell_with_a_magic_in_it_counts_once_and_is_saved_at_its_end() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        await notebook.run("x = 1\n%branches\nx = 2")
        undone = await notebook.run("%undo")
        assert [cell["source"] for cell in undone.record["cells"]] == ["x = 1\n%branches\nx = 2"]
        assert "NameError" in (await notebook.run("x")).text


@in_a_loop
async def test_a_cell_run_in_another_branch_is_not_followed_by_a_checkpoint() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        await notebook.run("%autocheckpoint on")
        await notebook.run("%%branch other\nx = 1")
        await notebook.run("%checkpoints")
        assert len(await sources_by_node(notebook)) == 1


@in_a_loop
async def test_a_checkpoint_that_fails_is_said_under_the_cell_and_fails_nothing() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        cannot_save(notebook.session)
        message_id = notebook.send("x = 1")
        assert (await notebook.answer(message_id)).status == "ok"
        await notebook.wait_output(message_id, "autocheckpoint failed: the disk is full")
        assert (await notebook.run("x")).status == "ok"
        assert "the last one failed" in (await notebook.run("%autocheckpoint")).text


@pytest.mark.parametrize("parks_main", [True, False])
@in_a_loop
async def test_a_branch_that_ended_before_it_could_be_saved_by_itself_is_let_be(
    *, parks_main: bool
) -> None:
    async with open_notebook() as notebook:
        session = notebook.session
        await notebook.run("%fork 1 --names other")
        await notebook.run("%autocheckpoint on")
        running = await start(notebook)
        async with session.turn():
            running.end()
            await notebook.answer(running.id)
            await session.switch("other")
            if parks_main:
                await session.keep("other")
            else:
                await session.drop(["main"])
        assert (await notebook.run("1")).status == "ok"
        assert "failed" not in (await notebook.run("%autocheckpoint")).text
        said = [m["content"]["text"] for m in notebook.seen if m["msg_type"] == "stream"]
        assert not [text for text in said if "autocheckpoint failed" in text]


def cannot_save(session: FakeSession) -> None:
    """From now on there is no room for automatic checkpoints."""

    async def full(*_: object, **__: object) -> Checkpoint:
        raise StorageError("the disk is full")

    pytest.MonkeyPatch().setattr(session, "checkpoint", full)


@in_a_loop
async def test_it_is_off_until_it_is_on_and_says_so() -> None:
    async with open_notebook() as notebook:
        assert (await notebook.run("%autocheckpoint")).record["every"] == 0
        assert (await notebook.run("%autocheckpoint every 3")).record["every"] == 3
        assert "after every 3 cells" in (await notebook.run("%autocheckpoint")).text
        assert (await notebook.run("%autocheckpoint off")).record["every"] == 0
        count = len(notebook.session.checkpoints())
        for _ in range(4):
            await notebook.run("x = 1")
        assert len(notebook.session.checkpoints()) == count


@in_a_loop
async def test_an_undo_drops_what_was_queued_behind_it() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        await notebook.run("x = 1")
        await notebook.run("x = 2")
        undo, later = notebook.send("%undo"), notebook.send("x = 3")
        assert (await notebook.answer(undo)).record["dropped_cells"] == 1
        assert (await notebook.answer(later)).status == "aborted"
        assert await value(notebook, "x") == "1"


@in_a_loop
async def test_an_undo_counts_back_past_named_checkpoints() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%checkpoint one")
        await notebook.run("x = 2")
        await notebook.run("%checkpoint two")
        await notebook.run("x = 3")
        assert (await notebook.run("%undo 2")).record["checkpoint"]["label"] == "one"
        refused = await notebook.run("%undo 1")
        assert refused.status == "error"
        assert "1 cell back" in refused.text


@in_a_loop
async def test_a_preview_of_an_undo_changes_nothing() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        await notebook.run("x = 2")
        count = len(notebook.session.checkpoints())
        answer = await notebook.run("%undo --preview")
        assert answer.record["op"] == "preview"
        assert [cell["source"] for cell in answer.record["cells"]] == ["x = 2"]
        assert answer.record["effects"] == []
        assert len(notebook.session.checkpoints()) == count
        assert await value(notebook, "x") == "2"


@in_a_loop
async def test_a_preview_of_another_line_says_what_would_come_back() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        await notebook.run("x = 2")
        await notebook.run("%checkpoint two")
        await notebook.run("%rollback one")
        await notebook.run("y = 3")
        answer = await notebook.run("%rollback two --preview")
        assert [cell["source"] for cell in answer.record["cells"]] == ["y = 3"]
        assert "1 cell run on that line counts again" in answer.text
