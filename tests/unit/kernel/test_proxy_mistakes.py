"""What this kernel itself does wrong: told where it happened, and nothing else is harmed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.carrying import start
from tests.support.fake_session import FakeSession
from tests.support.front_end import in_a_loop, open_notebook, open_with
from tests.support.lineage_page import LineagePage
from tests.unit.kernel.test_proxy_calls import ask, magic

from branchpoint_kernel.interrupts import Interrupts
from branchpoint_kernel.relay import Opened
from branchpoint_kernel.vigil import Vigil
from branchpoint_vmruntime.image.progress import Progress


async def mistaken(*_: Any, **__: Any) -> None:
    raise RuntimeError("ours")


@pytest.mark.parametrize("code", ["%checkpoint", "x = 1\n%checkpoint"])
@in_a_loop
async def test_a_mistake_in_a_cell_of_ours_is_shown_in_it(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_notebook() as notebook:
        monkeypatch.setattr(notebook.session, "checkpoint", mistaken)
        answer = await notebook.run(code)
        assert answer.types == ["busy", "execute_input", "error", "idle"]
        assert "the kernel made a mistake: RuntimeError: ours" in answer.text
        assert (answer.status, answer.reply["content"]["execution_count"]) == ("error", 1)
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_what_waits_behind_a_mistake_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_notebook() as notebook:
        monkeypatch.setattr(notebook.session, "checkpoint", mistaken)
        running = await start(notebook)
        sent = notebook.send("%checkpoint"), notebook.send("x = 1")
        await notebook.taken_in()
        running.end()
        assert [(await notebook.answer(it)).status for it in sent] == ["error", "aborted"]


@in_a_loop
async def test_a_mistake_with_a_cell_of_the_guest_is_shown_in_it_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        with monkeypatch.context() as patched:
            patched.setattr(notebook.session.current.kernel, "send", mistaken)
            answer = await notebook.run("1")
        assert answer.types == ["busy", "error", "idle"]
        assert "the kernel made a mistake: RuntimeError: ours" in answer.text
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_request_beside_the_cells_that_is_mishandled_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        with monkeypatch.context() as patched:
            patched.setattr(notebook.session.current.kernel, "send", mistaken)
            asked = notebook.control("create_subshell_request")
            reply = await notebook.reply(asked, "control")
        assert (reply["content"]["status"], reply["content"]["evalue"]) == (
            "error",
            "the kernel made a mistake: RuntimeError: ours",
        )


def breaking(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets a task of the session fail as nobody foresaw, once it is called."""
    broken = asyncio.Event()

    async def watch(_: Vigil) -> None:
        await broken.wait()
        await mistaken()

    monkeypatch.setattr(Vigil, "watch", watch)
    return broken.set


@in_a_loop
async def test_a_cell_that_runs_as_the_session_breaks_down_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_down = breaking(monkeypatch)
    async with open_notebook() as notebook:
        running = await start(notebook)
        behind = notebook.send("x = 1")
        await notebook.taken_in()
        break_down()
        for sent in (running.id, behind, notebook.send("%checkpoint")):
            answer = await notebook.answer(sent)
            assert answer.status == "error"
            assert "unforeseen end: RuntimeError: ours" in answer.text


@in_a_loop
async def test_a_magic_that_is_carried_out_as_the_session_breaks_down_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_down = breaking(monkeypatch)
    async with open_notebook() as notebook:
        begun = asyncio.Event()

        async def for_ever(*_: Any, **__: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(notebook.session, "checkpoint", for_ever)
        sent = notebook.send("%checkpoint")
        await begun.wait()
        break_down()
        reply = await notebook.reply(sent)
        assert "unforeseen end: RuntimeError: ours" in reply["content"]["evalue"]


@in_a_loop
async def test_a_session_that_ends_badly_is_no_reason_to_go_on_without_it() -> None:
    session = FakeSession()

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        async with session:
            try:
                yield Opened(session, "")
            finally:
                await mistaken()

    # It waits for the proxy to come to its end.
    async with open_with(opening, session) as notebook:
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_an_interrupt_that_goes_wrong_is_answered_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        with monkeypatch.context() as patched:
            patched.setattr(Interrupts, "interrupt", mistaken)
            asked = notebook.control("interrupt_request")
            reply = await notebook.reply(asked, "control")
        assert reply["content"]["evalue"] == "the kernel made a mistake: RuntimeError: ours"
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_an_automatic_checkpoint_that_goes_wrong_is_told_of_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        monkeypatch.setattr(notebook.session, "checkpoint", mistaken)
        sent = notebook.send("1")
        words = "autocheckpoint failed: the kernel made a mistake: RuntimeError: ours"
        await notebook.wait_output(sent, words)
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_a_mistake_is_told_in_the_same_words_inside_a_cell_and_in_the_lineage_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        monkeypatch.setattr(notebook.session, "checkpoint", mistaken)
        monkeypatch.setitem(notebook.session.answers, "checkpoint", mistaken)
        inside = await ask(notebook, magic("checkpoint"))
        refused = (await page.act("checkpoint"))["refused"]
        said = "the kernel made a mistake: RuntimeError: ours"
        hint = "the session is unharmed; the kernel's log has the details"
        assert (inside["evalue"], inside["hint"]) == (said, hint)
        assert refused == {"message": said, "hint": hint}
