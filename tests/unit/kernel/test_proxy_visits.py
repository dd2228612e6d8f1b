"""What comes in from outside while a notebook is open: it waits its turn, and all is in step."""

import asyncio

from tests.support.carrying import hold
from tests.support.front_end import Notebook, in_a_loop, open_notebook

from branchpoint_vmruntime.lineage import BranchState


@in_a_loop
async def test_after_a_rollback_from_outside_cells_run_in_the_machine_that_came_back() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%checkpoint one")
        await notebook.run("x = 2")
        async with notebook.session.turn():
            await notebook.session.rollback("one")
        told = (await notebook.run("x")).text
        assert "main is back at one" in told
        assert told.endswith("\n1\n")
        assert (await notebook.run("x")).text == "1\n"
        undone = (await notebook.run("%undo --preview")).text
        assert "x = 2" not in undone


@in_a_loop
async def test_a_cell_in_a_branch_rolled_back_from_outside_ends_saying_so() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        notebook.session.keeps_variables = False
        sent = notebook.send("import time; print('on'); time.sleep(600)")
        await notebook.wait_output(sent, "on")
        behind = notebook.send("behind = True")
        await notebook.taken_in()
        async with notebook.session.turn():
            await notebook.session.rollback("one", safety=False)
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "branch 'main' went on from another moment" in answer.text
        assert (await notebook.answer(behind)).status in ("aborted", "error")
        assert (await notebook.run("'behind' in globals()")).text.endswith("\nFalse\n")


@in_a_loop
async def test_after_a_switch_and_a_pause_from_outside_the_next_cell_finds_its_kernel() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 'main'")
        await notebook.run("%fork 1 --names a")
        await notebook.run("%%branch a\nx = 'a'")
        async with notebook.session.turn():
            await notebook.session.switch("a")
        told = (await notebook.run("x")).text
        assert "this notebook continues as a" in told
        assert told.endswith("\n'a'\n")
        async with notebook.session.turn():
            await notebook.session.pause()
        assert (await notebook.run("x")).text.endswith("\n'a'\n")


@in_a_loop
async def test_comms_are_reconciled_after_a_rollback_from_outside() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        await notebook.run("import comm; comm.create_comm(target_name='t', comm_id='c')")
        notebook.seen.clear()
        async with notebook.session.turn():
            await notebook.session.rollback("one")
        closed = await until(notebook, "comm_close")
        assert closed["content"]["comm_id"] == "c"


async def until(notebook: Notebook, kind: str) -> dict[str, dict[str, str]]:
    """The next message of a kind that is published."""
    while True:
        message = await notebook.client.get_iopub_msg(timeout=120)
        if message["msg_type"] == kind:
            return message


@in_a_loop
async def test_what_comes_from_outside_waits_for_the_kernels_own_turn_and_cells_for_it() -> None:
    async with open_notebook() as notebook:
        async with notebook.session.turn():
            sent, magic = notebook.send("1"), notebook.send("%checkpoint one")
            await asyncio.sleep(0.3)
            assert not [m for m in notebook.seen if m["msg_type"] == "execute_reply"]
            assert len(notebook.session.checkpoints()) == 1
        assert (await notebook.answer(sent)).text == "1\n"
        assert (await notebook.answer(magic)).status == "ok"


@in_a_loop
async def test_a_branch_is_not_paused_from_outside_while_a_cell_runs_in_it() -> None:
    async with open_notebook() as notebook:
        assert not notebook.session.executes("main")
        running = await hold(notebook)
        assert notebook.session.executes("main")
        running.end()
        await notebook.answer(running.id)
        assert not notebook.session.executes("main")


@in_a_loop
async def test_a_branch_that_another_resumed_is_taken_on_at_once() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%pause")
        await notebook.session.awake()
        assert notebook.session.current.state is BranchState.LIVE
        assert (await notebook.run("x")).text == "1\n"


@in_a_loop
async def test_a_paused_branch_that_is_resumed_and_saved_from_outside_has_gone_on() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%pause")
        async with notebook.session.turn():
            await notebook.session.awake()
            await notebook.session.checkpoint("theirs")
        assert (await notebook.run("x")).text == "1\n"
