"""What a cell is told when its guest is silent or heeds no interrupt, through the whole proxy."""

import pytest
from tests.support.carrying import start
from tests.support.front_end import in_a_loop, open_notebook

from branchpoint_kernel import vigil as vigil_module


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil_module, "WATCH_EVERY_S", 0.05)
    monkeypatch.setattr(vigil_module, "INTERRUPT_HEEDED_WITHIN_S", 0.3)


@in_a_loop
async def test_a_cell_whose_machine_is_silent_is_told_once_and_runs_on() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        running = await start(notebook)
        notebook.session.current.silent = True
        await notebook.wait_output(running.id, "has not answered")
        await notebook.listen(0.5)
        notebook.session.current.silent = False
        running.end()
        answer = await notebook.answer(running.id)
        assert answer.status == "ok"
        assert answer.text.count("has not answered") == 1
        assert "%rollback saved" in answer.text


@in_a_loop
async def test_a_magic_behind_a_silent_machine_runs_and_the_cells_before_it_are_dropped() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        running = await start(notebook)
        notebook.session.current.silent = True
        plain, ours = notebook.send("1"), notebook.send("%branches")
        answer = await notebook.answer(running.id)
        assert answer.reply["content"]["ename"] == "GuestSilent"
        assert "%rollback saved" in answer.text
        assert (await notebook.answer(plain)).status == "aborted"
        assert (await notebook.answer(ours)).status == "ok"
        running.end()


@in_a_loop
async def test_an_interrupt_without_effect_is_told_and_magics_wait_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        running = await start(notebook)

        async def have_no_effect() -> None:
            pass

        monkeypatch.setattr(notebook.session.current, "interrupt", have_no_effect)
        notebook.control("interrupt_request")
        await notebook.wait_output(running.id, "has not ended the cell")
        assert (await notebook.run("%branches")).status == "ok"
        back = notebook.send("%rollback saved --no-safety")
        answer = await notebook.answer(running.id)
        assert answer.status == "error"
        assert (await notebook.answer(back)).status == "ok"


@in_a_loop
async def test_an_interrupt_with_effect_is_not_commented_on() -> None:
    async with open_notebook() as notebook:
        running = await start(notebook)
        notebook.control("interrupt_request")
        answer = await notebook.answer(running.id)
        assert answer.reply["content"]["ename"] == "KeyboardInterrupt"
        await notebook.listen(0.5)
        assert "has not ended" not in (await notebook.answer(running.id)).text
        running.end()
