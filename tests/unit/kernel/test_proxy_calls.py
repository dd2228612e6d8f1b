"""Calls out of running code, through the whole proxy: what is done, answered and refused."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.carrying import CarryingKernel, start
from tests.support.fake_session import FakeSession
from tests.support.front_end import Notebook, in_a_loop, open_notebook

from branchpoint_kernel import exploring_room
from branchpoint_kernel.records import RECORD_TYPE


def magic(name: str, line: str = "", body: str = "") -> dict[str, Any]:
    return {"do": "magic", "name": name, "line": line, "body": body, "by": "function"}


async def ask(notebook: Notebook, request: dict[str, Any], branch: str = "main") -> dict[str, Any]:
    calls = notebook.session.branch(branch).calls
    answer: Mapping[str, Any] = await calls.answered(calls.ask(request))
    return dict(answer)


@in_a_loop
async def test_a_checkpoint_answers_with_its_label_and_what_to_display() -> None:
    async with open_notebook() as notebook:
        answer = await ask(notebook, magic("checkpoint", "a --note 'x y'"))
        point = notebook.session.checkpoints()[-1]
        assert (point.label, point.note) == ("a", "x y")
        assert answer["status"] == "ok"
        assert answer["value"] == {"label": "a", "id": point.id}
        assert answer["data"]["text/plain"].startswith("● a")


@in_a_loop
async def test_code_that_asks_for_the_lineage_is_shown_the_tables_alone() -> None:
    async with open_notebook() as notebook:
        answer = await ask(notebook, magic("lineage"))
        assert answer["status"] == "ok"
        assert answer["data"]["text/html"].count("<table") == 2
        assert answer["data"].keys() == {"text/plain", "text/html", RECORD_TYPE}


@in_a_loop
async def test_a_checkpoint_remembers_the_cell_in_whose_middle_it_was_taken() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        running = await start(notebook)
        await ask(notebook, magic("checkpoint", "inside"))
        moment = notebook.session.checkpoints()[-1].moment
        (request,) = [each for each in moment.open if each.cell.source]
        assert request.id == running.id
        assert request.cell.source == running.code
        assert request.cell.count == 2
        assert moment.cell == request.cell
        assert moment.count == 1
        running.end()
        await notebook.answer(running.id)


@in_a_loop
async def test_a_checkpoint_between_cells_has_no_open_cell() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%checkpoint a")
        assert notebook.session.checkpoints()[-1].moment.open == ()


@in_a_loop
async def test_a_checkpoint_during_input_remembers_the_question() -> None:
    async with open_notebook() as notebook:
        notebook.session.keeps_variables = False
        sent = notebook.send("input('name? ')", allow_stdin=True)
        await notebook.client.get_stdin_msg(timeout=120)
        await ask(notebook, magic("checkpoint", "asking"))
        (request,) = notebook.session.checkpoints()[-1].moment.open
        assert '"name? "' in request.question
        notebook.client.input("Ada")
        await notebook.answer(sent)
        await ask(notebook, magic("checkpoint", "answered"))
        assert notebook.session.checkpoints()[-1].moment.open == ()


@in_a_loop
async def test_a_checkpoint_after_a_question_was_interrupted_remembers_none(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    async with open_notebook() as notebook:
        notebook.session.keeps_variables = False
        code = (
            "import os, time\ntry: input('name? ')\nexcept KeyboardInterrupt: print('on')\n"
            f"while os.path.exists({str(gate)!r}): time.sleep(.02)\ninput('again? ')"
        )
        sent = notebook.send(code, allow_stdin=True)
        await notebook.client.get_stdin_msg(timeout=120)
        await notebook.reply(notebook.control("interrupt_request"), "control")
        await notebook.wait_output(sent, "on")
        await ask(notebook, magic("checkpoint", "interrupted"))
        (request,) = [it for it in notebook.session.checkpoints()[-1].moment.open if it.cell.source]
        assert request.cell.source == code
        assert request.question == ""
        gate.rmdir()
        await notebook.client.get_stdin_msg(timeout=120)
        await ask(notebook, magic("checkpoint", "again"))
        (request,) = [it for it in notebook.session.checkpoints()[-1].moment.open if it.cell.source]
        assert '"again? "' in request.question
        notebook.client.input("Ada")
        await notebook.answer(sent)


@in_a_loop
async def test_a_call_works_on_the_branch_it_comes_from() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        await ask(notebook, magic("checkpoint", "there"), branch="other")
        assert notebook.session.checkpoints()[-1].branch == "other"
        await ask(notebook, magic("fork", "1 --names child"), branch="other")
        assert notebook.session.branch("child").record.parent == "other"


@in_a_loop
async def test_a_fork_answers_with_the_index_of_the_one_that_asked() -> None:
    async with open_notebook() as notebook:
        answer = await ask(notebook, magic("fork", "2 --names a,b"))
        assert answer["value"] == {"index": 0, "names": ["a", "b"]}


@in_a_loop
async def test_what_cannot_be_done_is_answered_in_words() -> None:
    async with open_notebook() as notebook:
        answer = await ask(notebook, magic("rollback", "nowhere"))
        assert answer["status"] == "error"
        assert "there is no checkpoint 'nowhere'" in answer["evalue"]
        assert "%checkpoints" in answer["hint"]


@in_a_loop
async def test_what_cannot_be_understood_is_answered_in_words() -> None:
    async with open_notebook() as notebook:
        for request in ({"do": "dance"}, {}, magic("dance"), magic("fork", "many")):
            assert (await ask(notebook, request))["status"] == "error"


@in_a_loop
async def test_a_call_whose_turn_comes_once_its_moment_is_left_behind_is_not_carried_out() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        running = await start(notebook)
        calls = notebook.session.current.calls
        async with notebook.session.turn():
            calls.ask(magic("checkpoint", "late"))
            await asyncio.sleep(0.1)
            await notebook.session.rollback("one", safety=False)
        answer = await notebook.answer(running.id)
        assert answer.status == "error"
        assert "went on from another moment" in answer.text
        await notebook.run("%branches")
        assert "late" not in [point.label for point in notebook.session.checkpoints()]


@in_a_loop
async def test_help_is_answered_as_data() -> None:
    async with open_notebook() as notebook:
        answer = await ask(notebook, magic("checkpoint", "--help"))
        assert "%checkpoint [LABEL]" in answer["data"]["text/plain"]


@in_a_loop
async def test_running_a_cell_in_branches_from_running_code_is_refused() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        answer = await ask(notebook, magic("branch", "other", "1 + 1"))
        assert "cell of its own" in answer["hint"]


@in_a_loop
async def test_an_exploration_of_nothing_is_refused() -> None:
    async with open_notebook() as notebook:
        for count in (0, -1, "many", None):
            answer = await ask(notebook, {"do": "explore", "count": count, "at_once": None})
            assert answer["status"] == "error"


@in_a_loop
async def test_results_come_back_in_the_order_of_the_options_and_the_forks_are_dropped() -> None:
    async with open_notebook() as notebook:
        session = notebook.session
        calls = session.current.calls
        number = calls.ask({"do": "explore", "count": 3, "at_once": 1})
        for index in (1, 2, 3):
            name = f"explore-1-{index}"
            await until(notebook, lambda name=name: name in names(session, "live"))
            assert session.branch(name).record.index == index
            inside = session.branch(name).calls
            assert (await ask_in(inside, f"p{index}"))["status"] == "ok"
        answer = await calls.answered(number)
        results = answer["value"]["results"]
        assert [each["payload"] for each in results] == ["p1", "p2", "p3"]
        assert [each["failure"] for each in results] == ["", "", ""]
        assert names(session, "live") == ["main"]


@in_a_loop
async def test_where_there_can_be_no_room_each_option_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring_room, "PATIENCE_S", 0.0)
    async with open_notebook() as notebook:
        notebook.session.machines = 1
        answer = await ask(notebook, {"do": "explore", "count": 2, "at_once": None})
        assert [each["failure"] for each in answer["value"]["results"]] == [
            "its fork did not come up: there is room for 0 machines more, not 1"
        ] * 2


def names(session: FakeSession, state: str) -> list[str]:
    return [branch.name for branch in session.branches() if branch.state == state]


async def until(notebook: Notebook, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await notebook.listen(0.05)


def stands_still(pid: int) -> bool:
    """Whether a process was stopped: one thread is, and the others only once that has run."""
    states = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)


async def ask_in(calls: Any, payload: str) -> dict[str, Any]:
    return await calls.answered(calls.ask({"do": "result", "payload": payload}))


@in_a_loop
async def test_what_an_option_printed_is_waited_for_although_its_result_came_long_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time
    async with open_notebook() as notebook:
        running = await start(notebook)
        session, calls = notebook.session, notebook.session.current.calls
        number = calls.ask({"do": "explore", "count": 1, "at_once": 1})
        await until(notebook, lambda: "explore-1-1" in names(session, "live"))
        branch = session.branch("explore-1-1")
        guest = branch.kernel.guest
        guest.signal(signal.SIGSTOP)
        await until(notebook, lambda: stands_still(guest.kernel.pid))
        sent = guest.sent
        assert (await ask_in(branch.calls, "p1"))["status"] == "ok"
        await until(notebook, lambda: guest.sent > sent)
        monkeypatch.setattr(loop, "time", lambda: now() + 20)
        await notebook.listen(0.05)
        CarryingKernel(branch, running.id).write("as it was said\n")
        guest.signal(signal.SIGCONT)
        (result,) = (await calls.answered(number))["value"]["results"]
        assert (result["payload"], result["output"]) == ("p1", "as it was said")


@in_a_loop
async def test_a_caller_that_is_gone_ends_its_exploration() -> None:
    async with open_notebook() as notebook:
        session = notebook.session
        calls = session.current.calls
        number = calls.ask({"do": "explore", "count": 2, "at_once": 1})
        await until(notebook, lambda: "explore-1-1" in names(session, "live"))
        calls.note_gone(number)
        await until(notebook, lambda: "explore-1-1" in names(session, "dropped"))
        assert names(session, "live") == ["main"]
        assert (await notebook.run("1")).status == "ok"
