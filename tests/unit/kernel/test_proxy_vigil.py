"""What a cell is told when its guest is silent or heeds no interrupt, through the whole proxy."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.support.carrying import hold, start
from tests.support.front_end import Notebook, in_a_loop, open_notebook

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
async def test_a_page_that_is_loaded_gives_up_no_cell_whose_machine_is_silent() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        running = await start(notebook)
        asked = [notebook.client.kernel_info(), notebook.client.complete("%rollback sa")]
        await notebook.taken_in()
        notebook.session.current.silent = True
        await notebook.wait_output(running.id, "has not answered")
        await notebook.listen(0.5)
        notebook.session.current.silent = False
        running.end()
        answer = await notebook.answer(running.id)
        assert answer.status == "ok"
        assert answer.text.count("has not answered") == 1
        for question in asked:
            assert (await notebook.reply(question))["content"]["status"] == "ok"


@in_a_loop
async def test_a_page_that_is_loaded_drops_no_cell_behind_one_that_heeds_no_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        running = await start(notebook)
        behind, asked = notebook.send("1"), notebook.client.kernel_info()
        await notebook.taken_in()
        await interrupt_without_effect(notebook, monkeypatch)
        await notebook.listen(0.5)
        running.end()
        assert (await notebook.answer(behind)).text == "1\n"
        assert (await notebook.reply(asked))["content"]["status"] == "ok"


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
async def test_a_cell_that_ignores_interrupts_and_prints_on_is_told_and_holds_up_no_magic() -> None:
    async with open_notebook() as notebook:
        gate = notebook.session.current.kernel.guest.folder / "gate"
        gate.mkdir()
        sent = notebook.send(
            "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            f"while os.path.exists({str(gate)!r}): print('on', flush=True); time.sleep(.05)"
        )
        await notebook.wait_output(sent, "on")
        for _ in range(2):
            notebook.control("interrupt_request")
        await notebook.wait_output(sent, "has not ended the cell")
        assert (await notebook.run("%branches")).status == "ok"
        gate.rmdir()
        assert (await notebook.answer(sent)).status == "ok"


async def interrupt_without_effect(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    async def have_no_effect() -> None:
        pass

    monkeypatch.setattr(notebook.session.current, "interrupt", have_no_effect)
    notebook.control("interrupt_request")
    await hear_of(notebook, "has not ended the cell")


async def hear_of(notebook: Notebook, words: str) -> None:
    """Until they are printed, or in something that is displayed."""
    said = ""
    while words not in said:
        content = (await notebook.hear())["content"]
        said = content.get("text", "") + content.get("data", {}).get("text/plain", "")


@in_a_loop
async def test_a_magic_passes_plain_cells_that_wait_for_one_that_heeds_no_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        running = await start(notebook)
        behind = notebook.send("1")
        await interrupt_without_effect(notebook, monkeypatch)
        back = notebook.send("%rollback saved --no-safety")
        assert (await notebook.answer(behind)).status == "aborted"
        assert (await notebook.answer(running.id)).status == "error"
        assert (await notebook.answer(back)).status == "ok"


@pytest.mark.parametrize("cell", ["%checkpoint never", "%branches\n2", "%%branch main\n"])
@in_a_loop
async def test_a_magic_passes_a_cell_of_ours_whose_code_heeds_no_interrupt(
    monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        sent = await hold_ours(notebook, cell)
        await interrupt_without_effect(notebook, monkeypatch)
        back = notebook.send("%rollback saved --no-safety")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "heeds no interrupt" in answer.text
        assert "%rollback saved" in answer.text
        assert (await notebook.answer(back)).status == "ok"
        assert (await notebook.run("1")).text == "1\n"


@pytest.mark.parametrize("cell", ["%checkpoint never", "%branches\n2", "%%branch main\n"])
@in_a_loop
async def test_a_magic_passes_a_cell_of_ours_whose_machine_is_silent(cell: str) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint saved")
        sent = await hold_ours(notebook, cell)
        notebook.session.current.silent = True
        back = notebook.send("%rollback saved --no-safety")
        answer = await notebook.answer(sent)
        assert answer.reply["content"]["status"] == "error"
        assert "did not answer" in answer.text
        assert (await notebook.answer(back)).status == "ok"


async def hold_ours(notebook: Notebook, cell: str) -> str:
    """Send a cell of ours whose code waits in the current kernel; its id once it runs."""
    if "%%branch" not in cell:
        return (await hold(notebook, then=cell)).id
    sent = notebook.send(f"{cell}import time; print('waiting'); time.sleep(600)")
    await hear_of(notebook, "waiting")
    return sent


@in_a_loop
async def test_code_beside_magics_is_refused_while_what_runs_heeds_no_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        running = await start(notebook)
        await interrupt_without_effect(notebook, monkeypatch)
        for cell in ("%branches\n1", "%%branch main\n1"):
            answer = await notebook.run(cell)
            assert answer.status == "error"
            assert "heeds no interrupt" in answer.text
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


@in_a_loop
async def test_an_interrupt_with_effect_is_not_commented_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        """Whoever waits for the effect has waited long enough once it is there."""
        if seconds == vigil_module.INTERRUPT_HEEDED_WITHIN_S:
            await over.wait()
        else:
            await asyncio.sleep(seconds)

    waiting = SimpleNamespace(sleep=sleep, gather=asyncio.gather)
    monkeypatch.setattr(vigil_module, "asyncio", waiting)
    async with open_notebook() as notebook:
        running = await start(notebook)
        notebook.control("interrupt_request")
        answer = await notebook.answer(running.id)
        assert answer.reply["content"]["ename"] == "KeyboardInterrupt"
        over.set()
        await notebook.listen(0.5)
        assert "has not ended" not in (await notebook.answer(running.id)).text
        running.end()
