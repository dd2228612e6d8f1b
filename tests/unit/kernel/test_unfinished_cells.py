"""Cells whose machine ended before they were done: whoever looks knows them, as the next kernel."""

from pathlib import Path

import pytest
from tests.support.front_end import Notebook, in_a_loop, open_notebook
from tests.unit.kernel.test_proxy_calls import ask, magic

from branchpoint_vmruntime.unfinished import keep_unfinished, unfinished
from branchpoint_vmruntime.viewing import view_of

SLOW = "import time; print('on'); time.sleep(30)"


def send(notebook: Notebook, code: str, cell_id: str) -> str:
    """Send a cell of a document; its message id."""
    client = notebook.client
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = client.session.msg("execute_request", content, metadata={"cellId": cell_id})
    client.shell_channel.send(message)
    return message["header"]["msg_id"]


@in_a_loop
async def test_a_cell_that_ends_with_its_machine_has_died_until_it_is_run_again(
    tmp_path: Path,
) -> None:
    async with open_notebook(tmp_path / "s") as notebook:
        await notebook.run("%checkpoint one")
        await notebook.answer(send(notebook, "x = 1", "done"))
        sent = send(notebook, SLOW, "slow")
        await notebook.wait_output(sent, "on")
        assert notebook.session.died() == ()
        assert set(unfinished(tmp_path / "s")) == {"slow"}
        notebook.session.current.kernel.guest.relay.kill()
        await notebook.answer(sent)
        assert notebook.session.died() == ("slow",)
        await notebook.run("%rollback one")
        await notebook.answer(send(notebook, "x = 2", "slow"))
        assert notebook.session.died() == ()
        assert unfinished(tmp_path / "s") == ()


@in_a_loop
async def test_a_cell_has_ended_when_its_kernel_is_idle_though_its_reply_comes_later(
    tmp_path: Path,
) -> None:
    async with open_notebook(tmp_path / "s") as notebook:
        notebook.session.current.kernel.guest.replies_last = True
        await notebook.answer(send(notebook, "x = 1", "done"))
        assert notebook.session.died() == ()
        assert unfinished(tmp_path / "s") == ()


@in_a_loop
async def test_what_ran_when_the_kernel_before_was_killed_has_died(tmp_path: Path) -> None:
    keep_unfinished(tmp_path / "s", {"slow"})
    async with open_notebook(tmp_path / "s") as notebook:
        assert (await view_of(notebook.session)).died == ("slow",)
        await notebook.answer(send(notebook, "x = 2", "other"))
        assert set(unfinished(tmp_path / "s")) == {"slow"}


@in_a_loop
async def test_a_cell_that_came_to_its_end_has_not_died_with_a_fork_of_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    waits = f"import os, time; print('on')\nwhile os.path.exists({str(gate)!r}): time.sleep(.02)"
    async with open_notebook(tmp_path / "s") as notebook:
        notebook.session.keeps_variables = False
        sent = send(notebook, waits, "c")
        await notebook.wait_output(sent, "on")
        await ask(notebook, magic("fork", "1 --names other"))
        gate.rmdir()
        await notebook.answer(sent)
        assert unfinished(tmp_path / "s") == ()
        for cell in ("%switch other", "%switch main", "%drop other"):
            assert (await notebook.run(cell)).status == "ok"
            assert notebook.session.died() == ()


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", '["half'])
def test_what_makes_no_sense_there_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "unfinished").write_text(text)
    assert unfinished(tmp_path) == ()


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("no folder")
    keep_unfinished(tmp_path / "s", {"slow"})
    assert unfinished(tmp_path / "s") == ()
