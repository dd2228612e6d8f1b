"""What a woken kernel carries on with, through the whole proxy: where it goes and how it ends."""

import asyncio
from typing import Any

import pytest
from tests.support.carrying import CarryingKernel, Running, start
from tests.support.front_end import Notebook, in_a_loop, open_notebook
from tests.unit.kernel.test_proxy_calls import ask, magic, names, until

from branchpoint_vmruntime.errors import BudgetError
from branchpoint_vmruntime.lineage import CheckpointKind


async def saved_inside(notebook: Notebook) -> str:
    """A checkpoint `inside` in the middle of a cell that has ended since; the cell's id."""
    running = await start(notebook)
    await ask(notebook, magic("checkpoint", "inside"))
    running.end()
    await notebook.answer(running.id)
    return running.id


async def woken(notebook: Notebook) -> None:
    await until(notebook, lambda: notebook.session.current.reason == "rollback")


async def roll_back(notebook: Notebook, **options: Any) -> tuple[str, CarryingKernel]:
    """A cell that rolls back into the middle of one, and what speaks for the woken kernel."""
    old = await saved_inside(notebook)
    sent = notebook.send("%rollback inside", **options)
    await woken(notebook)
    return sent, CarryingKernel(notebook.session.current, old)


@in_a_loop
async def test_outputs_go_to_the_cell_that_rolled_back_and_it_ends_with_them() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook)
        kernel.write("carried on\n")
        await notebook.wait_output(sent, "carried on")
        assert not [m for m in notebook.seen if is_idle(m, sent)]
        kernel.end(count=7)
        answer = await notebook.answer(sent)
        assert answer.status == "ok"
        assert answer.reply["content"]["execution_count"] == 7
        assert answer.types.count("busy") == answer.types.count("idle") == 1
        assert answer.types.count("execute_input") == 1


@in_a_loop
async def test_nothing_reaches_the_request_that_was_open_then() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook)
        seen = len(notebook.seen)
        kernel.write("carried on\n")
        kernel.end()
        await notebook.answer(sent)
        kernel.write("a thread's\n")
        await notebook.wait_output(sent, "a thread's")
        parents = {m["parent_header"].get("msg_id") for m in notebook.seen[seen:]}
        assert parents <= {sent}


@in_a_loop
async def test_a_cell_that_a_magic_ended_quietly_counts_as_well_run() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook)
        kernel.end(error="CellEnded")
        answer = await notebook.answer(sent)
        assert answer.status == "ok"
        assert "error" not in answer.types


@in_a_loop
async def test_an_error_in_what_is_carried_on_is_the_cells_and_drops_what_is_queued() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook)
        behind = notebook.send("print('never')")
        await notebook.taken_in()
        kernel.end(error="ValueError")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert answer.reply["content"]["ename"] == "ValueError"
        assert (await notebook.answer(behind)).status == "aborted"


@in_a_loop
async def test_a_question_in_what_is_carried_on_reaches_the_client_of_the_cell() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook, allow_stdin=True)
        kernel.ask("name? ")
        asked = await notebook.client.get_stdin_msg(timeout=120)
        assert asked["parent_header"]["msg_id"] == sent
        assert asked["content"]["prompt"] == "name? "
        kernel.end()
        await notebook.answer(sent)


@in_a_loop
async def test_a_question_pending_at_the_checkpoint_is_asked_again_at_once() -> None:
    async with open_notebook() as notebook:
        notebook.session.keeps_variables = False
        old = notebook.send("input('name? ')", allow_stdin=True)
        await notebook.client.get_stdin_msg(timeout=120)
        await ask(notebook, magic("checkpoint", "asking"))
        notebook.client.input("Ada")
        await notebook.answer(old)
        sent = notebook.send("%rollback asking", allow_stdin=True)
        asked = await notebook.client.get_stdin_msg(timeout=120)
        assert asked["parent_header"]["msg_id"] == sent
        CarryingKernel(notebook.session.current, old).end()
        await notebook.answer(sent)


@in_a_loop
async def test_a_question_that_no_client_takes_ends_in_words() -> None:
    async with open_notebook() as notebook:
        sent, kernel = await roll_back(notebook)
        kernel.ask("name? ")
        await notebook.wait_output(sent, "cannot be answered here")
        kernel.end()
        await notebook.answer(sent)


@in_a_loop
async def test_code_that_rolls_back_gives_its_cell_to_what_is_carried_on() -> None:
    async with open_notebook() as notebook:
        sent = (await start(notebook)).id
        await ask(notebook, magic("checkpoint", "inside"))
        notebook.session.current.calls.ask(magic("rollback", "inside"))
        await woken(notebook)
        kernel = CarryingKernel(notebook.session.current, sent)
        kernel.write("restored\n")
        kernel.end(count=5)
        answer = await notebook.answer(sent)
        assert answer.status == "ok"
        assert "back at inside" in answer.text
        assert answer.text.endswith("restored\n")
        assert answer.reply["content"]["execution_count"] == 5
        assert answer.types.count("busy") == answer.types.count("idle") == 1


@in_a_loop
async def test_code_that_rolls_back_between_cells_ends_at_once() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1\n%checkpoint between")
        sent = (await start(notebook)).id
        notebook.session.current.calls.ask(magic("rollback", "between"))
        answer = await notebook.answer(sent)
        assert answer.status == "ok"
        assert "back at between" in answer.text
        assert (await notebook.run("x")).text == "1\n"


@in_a_loop
async def test_what_waits_behind_code_that_rolls_back_is_dropped() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint between")
        sent = (await start(notebook)).id
        behind = notebook.send("print('never')")
        await notebook.taken_in()
        notebook.session.current.calls.ask(magic("rollback", "between"))
        await notebook.answer(sent)
        assert (await notebook.answer(behind)).status == "aborted"


@in_a_loop
async def test_a_rollback_from_inside_that_is_refused_leaves_the_cell_running() -> None:
    async with open_notebook() as notebook:
        running = await start(notebook)
        assert (await ask(notebook, magic("rollback", "nowhere")))["status"] == "error"
        running.end()
        answer = await notebook.answer(running.id)
        assert answer.status == "ok"


@in_a_loop
async def test_code_that_keeps_another_branch_ends_and_is_carried_on_by_a_switch_back() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        running = await start(notebook)
        notebook.session.current.calls.ask(magic("keep", "other"))
        left = await notebook.answer(running.id)
        assert left.status == "ok"
        assert "continues as other" in left.text
        back = notebook.send("%switch main")
        await until(notebook, lambda: notebook.session.current.name == "main")
        kernel = CarryingKernel(notebook.session.current, running.id)
        kernel.write("carried on\n")
        kernel.end()
        answer = await notebook.answer(back)
        assert answer.status == "ok"
        assert answer.text.endswith("carried on\n")


@in_a_loop
async def test_an_execution_that_is_carried_on_can_be_carried_on_once_more() -> None:
    async with open_notebook() as notebook:
        first, kernel = await roll_back(notebook)
        await ask(notebook, magic("checkpoint", "deeper"))
        kernel.end()
        await notebook.answer(first)
        (request,) = notebook.session.checkpoints()[-1].moment.open
        main = notebook.session.current
        left = main.channel
        sent = notebook.send("%rollback deeper --no-safety")
        await until(notebook, lambda: main.channel not in (None, left))
        again = CarryingKernel(notebook.session.current, request.id)
        again.write("once more\n")
        again.end()
        assert (await notebook.answer(sent)).text.endswith("once more\n")


@in_a_loop
async def test_forks_from_a_checkpoint_inside_a_cell_are_shown_in_the_cell_that_forks() -> None:
    async with open_notebook() as notebook:
        old = await saved_inside(notebook)
        sent = notebook.send("%fork 1 --from inside --names left")
        await until(notebook, lambda: "left" in names(notebook.session, "live"))
        left = CarryingKernel(notebook.session.branch("left"), old)
        left.write("from the left\n")
        left.end()
        await wait_shown(notebook, sent, "from the left")
        assert (await notebook.answer(sent)).status == "ok"


@in_a_loop
async def test_without_any_cell_that_asked_outputs_stay_under_the_old_parent() -> None:
    async with open_notebook() as notebook:
        old = await saved_inside(notebook)
        notebook.session.current.calls.ask(magic("rollback", "inside"))
        await woken(notebook)
        kernel = CarryingKernel(notebook.session.current, old)
        kernel.write("nobody asked\n")
        await notebook.wait_output(old, "nobody asked")
        kernel.end()
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_a_fork_of_a_running_cell_is_shown_in_it_labelled_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("branchpoint_kernel.handover.LINGER_S", 120.0)
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        left.write("from the left\n")
        left.end()
        answer = await notebook.answer(running.id)
        shown = [m for m in answer.outputs if m["msg_type"].endswith("display_data")]
        last = shown[-1]["content"]
        assert "── left" in last["data"]["text/plain"]
        assert "from the left" in last["data"]["text/plain"]
        assert len({m["content"]["transient"]["display_id"] for m in shown}) == 1
        assert answer.types[-1] == "idle"


@in_a_loop
async def test_a_fork_that_runs_on_is_updated_in_the_cell_that_runs_then() -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        other = await start(notebook)
        left.write("late\n")
        await wait_shown(notebook, other.id, "late")
        other.end()
        await notebook.answer(other.id)


@in_a_loop
async def test_a_fork_at_its_cell_counts_as_running_until_the_end_of_that() -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        assert notebook.session.executes("left")
        assert "a cell runs in branch 'left'" in (await notebook.run("%pause left")).text
        assert not notebook.session.executes("main")
        left.end()
        await until(notebook, lambda: not notebook.session.executes("left"))
        assert (await notebook.run("%pause left")).status == "ok"


@in_a_loop
async def test_a_branch_left_for_a_fork_at_its_cell_is_saved_by_itself_at_once() -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        await notebook.run("%autocheckpoint on")
        assert (await notebook.run("x = 1\n%switch left")).status == "ok"
        assert (await notebook.run("%switch main")).status == "ok"
        saved = notebook.session.checkpoints()[-1]
        assert (saved.kind, saved.branch) == (CheckpointKind.AUTO, "main")
        assert saved.moment.cell is not None
        assert saved.moment.cell.source == "x = 1\n%switch left"
        left.end()


@in_a_loop
async def test_a_fork_at_its_cell_whose_budget_is_used_up_is_interrupted_and_told_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        interrupted = asyncio.Event()

        async def interrupt() -> None:
            interrupted.set()

        monkeypatch.setattr(notebook.session.branch("left"), "interrupt", interrupt)
        used_up = BudgetError("left has run for as long as it may", hint="raise it")
        notebook.session.outside.stopping.on_stop("left", used_up)
        await notebook.wait_output(running.id, "for as long as it may")
        await interrupted.wait()
        left.end()


@in_a_loop
async def test_a_cell_for_a_fork_that_is_at_another_waits_and_says_so_until_it_is_interrupted() -> (
    None
):
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        sent = notebook.send("%%branch left\nprint('never')")
        await wait_displayed(notebook, sent, "left · waits for the cell that runs there")
        notebook.control("interrupt_request")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "left: interrupted" in answer.reply["content"]["evalue"] + answer.text
        assert "%switch left" in answer.text
        assert (await notebook.run("1")).text == "1\n"
        left.end()
        assert "4\n" in (await notebook.run("%%branch left\n2 + 2")).text


@in_a_loop
async def test_an_interrupt_ends_the_waiting_of_one_side_and_what_runs_in_another() -> None:
    async with open_notebook() as notebook:
        running, _ = await fork_running(notebook)
        running.end()
        await notebook.answer(running.id)
        await notebook.run("%fork 1 --names right")
        sent = notebook.send("%%branch left,right\nimport time; print('on'); time.sleep(600)")
        await wait_displayed(notebook, sent, "on")
        notebook.control("interrupt_request")
        answer = await notebook.answer(sent)
        assert "left: interrupted" in answer.text
        assert "right: KeyboardInterrupt" in answer.text


@in_a_loop
async def test_a_question_in_a_fork_ends_in_words() -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        left.ask("name? ")
        left.end()
        await wait_shown(notebook, running.id, "a fork has nobody who could answer")
        running.end()
        await notebook.answer(running.id)


async def fork_running(notebook: Notebook) -> tuple[Running, CarryingKernel]:
    """A cell that runs and was forked, and what speaks for the fork."""
    running = await start(notebook)
    await ask(notebook, magic("fork", "1 --names left"))
    return running, CarryingKernel(notebook.session.branch("left"), running.id)


async def wait_shown(notebook: Notebook, parent: str, wanted: str) -> None:
    def shown() -> list[dict[str, Any]]:
        updates = [m for m in notebook.seen if m["msg_type"] == "update_display_data"]
        return [m for m in updates if m["parent_header"]["msg_id"] == parent]

    async with asyncio.timeout(120):
        while not any(wanted in m["content"]["data"]["text/plain"] for m in shown()):
            await notebook.listen(0.05)


async def wait_displayed(notebook: Notebook, parent: str, wanted: str) -> None:
    """Until it is in something that is displayed, or in what that is updated to."""
    while True:
        message = await notebook.hear()
        shown = str(message["content"].get("data", {}).get("text/plain", ""))
        if message["parent_header"].get("msg_id") == parent and wanted in shown:
            return


def is_idle(message: dict[str, Any], parent: str) -> bool:
    state = message["content"].get("execution_state")
    return state == "idle" and message["parent_header"].get("msg_id") == parent
