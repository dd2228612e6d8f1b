"""What goes wrong where nobody waits for it ends nothing but itself, through the whole proxy."""

from collections.abc import Mapping
from typing import Any, NoReturn

import pytest
from tests.support.carrying import start
from tests.support.front_end import Notebook, in_a_loop, open_notebook
from tests.unit.kernel.test_proxy_calls import ask_in, magic, names, until
from tests.unit.kernel.test_proxy_carrying import fork_running, wait_shown

from branchpoint_kernel import exploring, vigil
from branchpoint_kernel.messages import Channel
from branchpoint_kernel.redrawing import Redrawing
from branchpoint_vmruntime.errors import StorageError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "WATCH_EVERY_S", 0.05)
    monkeypatch.setattr(vigil, "INTERRUPT_HEEDED_WITHIN_S", 0.3)


def unreadable(*_: object) -> NoReturn:
    raise StorageError("the store cannot be read")


async def have_no_effect() -> None: ...


async def is_silent(notebook: Notebook, cell: str) -> None:
    notebook.session.current.silent = True
    await notebook.wait_output(cell, "has not answered")
    notebook.session.current.silent = False


async def heeds_no_interrupt(notebook: Notebook, cell: str) -> None:
    notebook.control("interrupt_request")
    await notebook.wait_output(cell, "has not ended the cell")


async def ends(notebook: Notebook, cell: str) -> None:
    notebook.session.current.kernel.guest.relay.kill()
    answer = await notebook.answer(cell)
    assert "the machine has ended" in answer.text


@pytest.mark.parametrize("befalls", [is_silent, heeds_no_interrupt, ends])
@in_a_loop
async def test_what_befalls_a_machine_is_told_though_the_store_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, befalls: Any
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        running = await start(notebook)
        monkeypatch.setattr(notebook.session.current, "interrupt", have_no_effect)
        with monkeypatch.context() as patched:
            patched.setattr(notebook.session, "checkpoints", unreadable)
            await befalls(notebook, running.id)
        running.end()
        assert (await notebook.run("%switch other")).status == "ok"
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_mistake_with_what_a_kernel_says_ends_that_branch_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def mistaken() -> NoReturn:
        raise RuntimeError("ours")

    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        monkeypatch.setattr(notebook.session.current.kernel, "receive", mistaken)
        answer = await notebook.run("1")
        assert "the kernel made a mistake: RuntimeError: ours" in answer.text
        assert (await notebook.run("%switch other")).status == "ok"
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_calls_that_cannot_be_heard_any_more_end_nothing_else() -> None:
    unforeseen: Any = RuntimeError("ours")
    async with open_notebook() as notebook:
        notebook.session.current.calls.fail(unforeseen)
        assert (await notebook.run("%branches")).status == "ok"
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_fork_may_end_quietly_and_what_it_prints_is_shown() -> None:
    async with open_notebook() as notebook:
        running, left = await fork_running(notebook)
        said = {"ename": "StopExecution", "evalue": "", "traceback": None}
        left.say(Channel.IOPUB, "error", said)
        left.write("late\n")
        await wait_shown(notebook, running.id, "late")
        running.end()
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_display_of_forks_that_goes_wrong_once_is_shown_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: object) -> NoReturn:
        raise RuntimeError("ours")

    async with open_notebook() as notebook:
        with monkeypatch.context() as patched:
            patched.setattr(Redrawing, "draw", mistaken)
            running, left = await fork_running(notebook)
        left.write("late\n")
        await wait_shown(notebook, running.id, "late")
        running.end()
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_branch_may_leave_a_cell_quietly_and_the_others_are_shown() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        quietly = "class Stop(Exception):\n    def _render_traceback_(self): pass\n"
        cell = f"%%branch all\nprint('in', branch.name)\n{quietly}if branch.name == 'a': raise Stop"
        answer = await notebook.run(cell)
        assert "in a" in answer.text
        assert "in b" in answer.text
        assert [run["status"] for run in answer.record["runs"]] == ["error", "ok"]


@in_a_loop
async def test_an_answer_that_cannot_be_sent_is_told_to_whoever_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        calls, sent = notebook.session.current.calls, list[str]()

        def send(number: int, answer: Mapping[str, Any]) -> None:
            sent.append(answer["status"])
            if len(sent) == 1:
                raise ValueError("a frame is over the limit")
            calls._take_answer(number, answer)  # pyright: ignore[reportPrivateUsage]

        monkeypatch.setattr(calls, "_send", send)
        answer = await calls.answered(calls.ask(magic("branches")))
        assert sent == ["ok", "error"]
        assert "a frame is over the limit" in answer["evalue"]
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_results_that_are_too_large_together_are_the_failures_of_those_that_came_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring, "MOST_TOGETHER", 100)
    async with open_notebook() as notebook:
        calls = notebook.session.current.calls
        number = calls.ask({"do": "explore", "count": 3, "at_once": 1})
        for index, size in enumerate((60, 60, 20), 1):
            name = f"explore-1-{index}"
            await until(notebook, lambda name=name: name in names(notebook.session, "live"))
            await ask_in(notebook.session.branch(name).calls, "x" * size)
        results = (await calls.answered(number))["value"]["results"]
        assert [len(each["payload"] or "") for each in results] == [60, 0, 20]
        assert "write large ones to a file" in results[1]["failure"]
