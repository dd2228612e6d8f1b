"""Pausing and resuming through the whole proxy: on demand, quietly, and not by a mere look."""

from typing import Any

import pytest
from tests.support.fake_branch import FakeBranch
from tests.support.front_end import Answer, Notebook, in_a_loop, open_notebook

from branchpoint_kernel import redrawing
from branchpoint_vmruntime.errors import BudgetError, DamagedError, UsageError
from branchpoint_vmruntime.lineage import BranchState

RESUMED = "▶ main resumed in 0.11 s, paused "


def is_paused(notebook: Notebook) -> bool:
    """Whether the machine of the current branch is away."""
    return notebook.session.current.state is BranchState.PAUSED


@in_a_loop
async def test_the_next_cell_resumes_a_paused_branch_and_says_so_before_its_own_output() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        paused = await notebook.run("%pause")
        assert paused.text.startswith("‖ main paused in 90 ms   67 MB given back · the next cell")
        assert (paused.record["op"], paused.record["paused"]) == ("pause", "main")
        assert paused.record["branches"][0]["memory"] is None
        again = await notebook.run("x")
        assert again.text.startswith(RESUMED)
        assert again.text.endswith("\n1\n")
        assert again.types[0] == "busy"
        assert again.record["op"] == "resume"
        assert again.reply["content"]["execution_count"] == 2
        assert (await notebook.run("x")).text == "1\n"


@in_a_loop
async def test_a_pause_within_a_cell_is_over_as_soon_as_its_next_line_runs() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("x = 1\n%pause\nprint(x)")
        assert [line[:6] for line in answer.text.splitlines()] == ["‖ main", "▶ main", "1"]


@in_a_loop
async def test_what_a_machine_is_needed_for_resumes_it_and_what_not_leaves_it_paused() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%pause")
        listed = await notebook.run("%branches")
        assert "paused" in listed.text
        assert listed.reply["content"]["execution_count"] == 1
        await notebook.run("%checkpoints")
        await notebook.run("%pause?")
        assert is_paused(notebook)
        saved = await notebook.run("%checkpoint later --pin")
        assert saved.text.startswith(RESUMED)
        assert "pinned" in saved.text
        assert saved.record["checkpoint"]["id"] in notebook.session.pins()


@in_a_loop
async def test_completion_inspection_and_comm_messages_resume_quietly() -> None:
    async with open_notebook() as notebook:
        await notebook.run("number = 12")
        for ask in (
            lambda: notebook.client.complete("numb"),
            lambda: notebook.client.inspect("number"),
        ):
            await notebook.run("%pause")
            notebook.seen.clear()
            answer = await notebook.answer(ask())
            assert "number" in str(answer.reply["content"])
            assert answer.types == ["busy", "idle"]
            assert not is_paused(notebook)
        await notebook.run("%pause")
        message = notebook.client.session.msg("comm_msg", {"comm_id": "c", "data": {"n": 7}})
        notebook.client.shell_channel.send(message)
        while is_paused(notebook):
            await notebook.client.get_iopub_msg(timeout=120)


@in_a_loop
async def test_a_look_at_a_paused_kernel_is_answered_and_leaves_it_paused() -> None:
    async with open_notebook() as notebook:
        await notebook.run("import comm; comm.create_comm(target_name='t', comm_id='c')")
        info = await notebook.reply(debug_info(notebook), "control")
        await notebook.run("%pause")
        client = notebook.client
        kernel = await notebook.reply(client.kernel_info())
        assert kernel["content"]["language_info"]["name"] == "python"
        comms = await notebook.reply(client.comm_info())
        assert comms["content"]["comms"] == {"c": {"target_name": "t"}}
        none = await notebook.reply(client.comm_info(target_name="u"))
        assert none["content"]["comms"] == {}
        again = await notebook.reply(debug_info(notebook), "control")
        assert again["content"]["body"] == info["content"]["body"]
        usage = await notebook.reply(notebook.control("usage_request"), "control")
        assert usage["content"]["kernel_memory"] == 0
        await notebook.reply(notebook.control("interrupt_request"), "control")
        assert is_paused(notebook)
        assert (await notebook.run("1")).text.endswith("\n1\n")


def debug_info(notebook: Notebook) -> str:
    """Ask how the debugger is, as a front end does whenever a notebook is looked at."""
    asked: dict[str, Any] = {"type": "request", "seq": 1, "command": "debugInfo", "arguments": {}}
    return notebook.control("debug_request", asked)


@in_a_loop
async def test_a_subshell_of_a_paused_kernel_is_resumed_and_is_the_same() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%pause")
        made = await notebook.reply(notebook.control("create_subshell_request"), "control")
        assert made["content"]["status"] == "ok"
        assert not is_paused(notebook)


@in_a_loop
async def test_a_paused_kernel_is_shut_down_at_once() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%pause")
        reply = await notebook.reply(notebook.control("shutdown_request"), "control")
        assert reply["content"]["status"] == "ok"


@in_a_loop
async def test_a_cell_in_several_branches_resumes_those_that_are_paused() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%fork 2 --names a,b")
        paused = await notebook.run("%pause a")
        assert "%%branch a resumes it" in paused.text
        answer = await notebook.run("%%branch all\nprint(x)")
        assert "▶ a resumed" in answer.text
        assert [run["status"] for run in answer.record["runs"]] == ["ok", "ok"]


@in_a_loop
async def test_what_a_cell_resumed_is_still_told_once_its_preview_has_been_cleared_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redrawing, "LEAST_REST_S", 0.0)
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        await notebook.run("%pause a")
        answer = await notebook.run("%%branch a\nimport time; time.sleep(0.5); print('done')")
        (cleared,) = [at for at, kind in enumerate(answer.types) if kind == "clear_output"]
        left = Answer(answer.reply, answer.outputs[cleared:]).text
        assert left.startswith("▶ a resumed")
        assert "done" in left


@in_a_loop
async def test_a_cell_in_several_branches_runs_in_those_that_come_up_and_waits_for_all() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        await notebook.run("%pause b")
        session = notebook.session
        awake = session.awake
        refused: list[str] = []

        async def not_b(name: str | None = None) -> FakeBranch:
            if name != "b":
                return await awake(name)
            # It has been long in coming, and the other one idle for as long.
            try:
                await session.pause("a")
            except UsageError as error:
                refused.append(str(error))
            raise DamagedError("files are gone of 'paused-b-1'")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "awake", not_b)
            answer = await notebook.run("%%branch a,b\nbranch.name")
            alone = await notebook.run("%%branch b\nbranch.name")
        assert refused == ["a cell runs in branch 'a'"]
        assert [run["status"] for run in answer.record["runs"]] == ["ok", "error"]
        assert "'a'" in answer.text
        assert "files are gone of 'paused-b-1'" in answer.text
        assert alone.reply["content"]["ename"] == "DamagedError"
        assert session.branch("a").state is BranchState.PAUSED


@in_a_loop
async def test_a_cell_in_several_branches_runs_in_those_that_are_left_when_one_has_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        await notebook.run("%pause b")
        session = notebook.session
        awake = session.awake

        async def as_a_ends(name: str | None = None) -> FakeBranch:
            relay = session.branch("a").kernel.guest.relay
            relay.kill()
            relay.wait()
            return await awake(name)

        monkeypatch.setattr(session, "awake", as_a_ends)
        answer = await notebook.run("%%branch all\nbranch.name")
        assert [run["status"] for run in answer.record["runs"]] == ["error", "ok"]
        assert "'b'" in answer.text


@in_a_loop
async def test_a_cell_in_several_branches_runs_in_those_whose_budgets_let_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")

        def not_a(branch: str) -> None:
            if branch == "a":
                raise BudgetError("a has run for as long as it may")

        monkeypatch.setattr(notebook.session.outside.stopping, "require", not_a)
        answer = await notebook.run("%%branch all\nbranch.name")
        assert [run["status"] for run in answer.record["runs"]] == ["error", "ok"]
        assert "for as long as it may" in answer.text
        alone = await notebook.run("%%branch a\nbranch.name")
        assert alone.reply["content"]["ename"] == "BudgetError"


@in_a_loop
async def test_pausing_and_resuming_what_is_so_already_is_refused_in_words() -> None:
    async with open_notebook() as notebook:
        assert "is not paused" in (await notebook.run("%resume")).text
        await notebook.run("%pause")
        refused = await notebook.run("%pause")
        assert "branch 'main' is paused and has no machine" in refused.text
        assert "%resume main" in refused.text
        assert (await notebook.run("%resume")).text.startswith(RESUMED)


@in_a_loop
async def test_code_cannot_pause_the_machine_it_runs_in_but_another() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        calls = notebook.session.branch("main").calls
        own = await calls.answered(calls.ask({"do": "magic", "name": "pause", "line": ""}))
        assert "cannot pause the machine it runs in" in own["evalue"]
        other = await calls.answered(calls.ask({"do": "magic", "name": "pause", "line": "a"}))
        assert other["status"] == "ok"
        assert notebook.session.branch("a").state is BranchState.PAUSED
        back = await calls.answered(calls.ask({"do": "magic", "name": "resume", "line": "a"}))
        assert back["status"] == "ok"


@in_a_loop
async def test_what_threads_print_after_a_branch_is_resumed_belongs_to_their_cell() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send("1")
        await notebook.answer(sent)
        await notebook.run("%pause")
        notebook.seen.clear()
        # The made-up machine keeps no threads: this one is begun by the cell that resumed it.
        started = notebook.send(
            "import threading; threading.Timer(0.3, print, ['late']).start()", store_history=True
        )
        await notebook.answer(started)
        await notebook.wait_output(started, "late")


@in_a_loop
async def test_completion_offers_for_each_what_can_be_paused_or_resumed() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names apple,pear")
        await notebook.run("%pause pear")
        for line, offered in (("%pause ", ["main", "apple"]), ("%resume ", ["pear"])):
            reply = await notebook.reply(notebook.client.complete(line))
            assert reply["content"]["matches"] == offered
