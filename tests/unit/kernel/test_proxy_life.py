"""Start, interrupts, questions, death and end, through the whole proxy."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.carrying import hold, saving_by_itself
from tests.support.fake_session import FakeSession
from tests.support.front_end import Notebook, comes_true, in_a_loop, open_notebook, open_with

from branchpoint_kernel import relay as relay_module
from branchpoint_kernel import vigil as vigil_module
from branchpoint_kernel.relay import Opened
from branchpoint_vmruntime.errors import MissingToolError
from branchpoint_vmruntime.image.progress import Progress


async def interrupt(notebook: Notebook) -> None:
    """Interrupt, and see that it is acknowledged."""
    reply = await notebook.reply(notebook.control("interrupt_request"), "control")
    assert reply["content"] == {"status": "ok"}


@in_a_loop
async def test_an_interrupt_stops_a_sleeping_cell() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send("import time; print('on'); time.sleep(30)")
        await notebook.wait_output(sent, "on")
        await interrupt(notebook)
        answer = await notebook.answer(sent)
        assert answer.reply["content"]["ename"] == "KeyboardInterrupt"
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_an_interrupt_stops_an_awaiting_cell_and_the_nudge_stays_unseen() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send("import asyncio; print('on', flush=True); await asyncio.sleep(30)")
        await notebook.wait_output(sent, "on")
        async with asyncio.timeout(120):
            await interrupt(notebook)
            assert (await notebook.answer(sent)).status == "error"
        mine = {sent} | {
            m["parent_header"]["msg_id"]
            for m in notebook.seen
            if m["parent_header"].get("msg_type") == "interrupt_request"
        }
        more = await notebook.listen(0.6)
        assert {m["parent_header"]["msg_id"] for m in more} <= mine


@in_a_loop
async def test_an_interrupt_stops_a_cell_in_every_branch_it_runs_in(tmp_path: Path) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        note = f"pathlib.Path({str(tmp_path)!r}, branch.name).touch()"
        sent = notebook.send(f"%%branch all\nimport pathlib, time\n{note}\ntime.sleep(300)")
        await comes_true(lambda: {path.name for path in tmp_path.iterdir()} == {"a", "b"})
        await interrupt(notebook)
        answer = await notebook.answer(sent)
        assert [run["failure"].split(":")[0] for run in answer.record["runs"]] == [
            "KeyboardInterrupt",
            "KeyboardInterrupt",
        ]


@in_a_loop
async def test_an_interrupt_of_an_idle_kernel_is_acknowledged() -> None:
    async with open_notebook() as notebook:
        await interrupt(notebook)
        assert (await notebook.run("1")).status == "ok"


@pytest.mark.parametrize(
    "code", ["print(input('name? '))", "%checkpoint a\nprint(input('name? '))"]
)
@in_a_loop
async def test_a_question_reaches_who_executed_and_the_answer_comes_back(code: str) -> None:
    async with open_notebook() as notebook:
        sent = notebook.send(code, allow_stdin=True)
        question = await notebook.client.get_stdin_msg(timeout=120)
        assert question["content"] == {"prompt": "name? ", "password": False}
        assert question["parent_header"]["msg_id"] == sent
        notebook.client.input("Ada")
        assert (await notebook.answer(sent)).text.endswith("Ada\n")


@in_a_loop
async def test_a_question_nobody_can_answer_is_an_error() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("input()", allow_stdin=False)
        assert answer.reply["content"]["ename"] == "StdinNotImplementedError"


@in_a_loop
async def test_control_answers_while_a_cell_runs() -> None:
    async with open_notebook() as notebook:
        running = await hold(notebook)
        reply = await notebook.reply(notebook.control("kernel_info_request"), "control")
        assert reply["content"]["language_info"]["name"] == "python"
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


@in_a_loop
async def test_a_subshell_runs_while_a_cell_does() -> None:
    async with open_notebook() as notebook:
        made = await notebook.reply(notebook.control("create_subshell_request"), "control")
        running = await hold(notebook)
        request = notebook.client.session.msg("execute_request", {"code": "print('beside')"})
        request["header"]["subshell_id"] = made["content"]["subshell_id"]
        notebook.client.shell_channel.send(request)
        answer = await notebook.answer(request["header"]["msg_id"])
        assert answer.text == "beside\n"
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


@in_a_loop
async def test_buffers_pass_byte_for_byte_both_ways() -> None:
    async with open_notebook() as notebook:
        await notebook.run(
            "from ipykernel.comm import Comm\n"
            "def echo(comm, message):\n"
            "    def answer(message):\n"
            "        comm.send({}, buffers=[bytes(each) for each in message['buffers']])\n"
            "    comm.on_msg(answer)\n"
            "get_ipython().kernel.comm_manager.register_target('echo', echo)"
        )
        session, shell = notebook.client.session, notebook.client.shell_channel
        shell.send(session.msg("comm_open", {"comm_id": "c", "target_name": "echo", "data": {}}))
        data = bytes(range(256)) * 4096
        message = session.msg("comm_msg", {"comm_id": "c", "data": {}})
        session.send(shell.socket, message, buffers=[data, b""])
        while True:
            back = await notebook.client.get_iopub_msg(timeout=120)
            if back["msg_type"] == "comm_msg":
                break
        assert [bytes(buffer) for buffer in back["buffers"]] == [data, b""]


@in_a_loop
async def test_when_the_machine_dies_the_cell_says_so_and_a_rollback_brings_it_back() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%checkpoint loaded")
        sent = notebook.send("import time; print('on'); time.sleep(30)")
        await notebook.wait_output(sent, "on")
        notebook.session.current.kernel.guest.relay.kill()
        answer = await notebook.answer(sent)
        assert answer.reply["content"]["ename"] == "MachineEnded"
        assert "type %rollback loaded" in answer.text
        assert "Traceback" not in answer.text
        again = await notebook.run("x")
        assert again.reply["content"]["ename"] == "MachineEnded"
        assert again.types == ["busy", "error", "idle"]
        assert (await notebook.run("%checkpoints")).status == "ok"
        assert (await notebook.run("%rollback loaded")).status == "ok"
        assert (await notebook.run("x")).text == "1\n"


@in_a_loop
async def test_a_kernel_that_dies_inside_its_machine_is_told_from_a_machine_that_ends() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert answer.reply["content"]["ename"] == "KernelDied"
        await notebook.run("%rollback base")
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_a_magic_is_not_held_up_by_a_guest_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vigil_module, "WATCH_EVERY_S", 0.1)
    async with open_notebook() as notebook:
        guest = notebook.session.current.kernel.guest
        sent = notebook.send("import time; print('on'); time.sleep(30)")
        await notebook.wait_output(sent, "on")
        guest.signal(signal.SIGSTOP)
        notebook.session.current.silent = True
        back = notebook.send("%rollback base")
        answer = await notebook.answer(sent)
        assert answer.reply["content"]["ename"] == "GuestSilent"
        assert (await notebook.answer(back)).status == "ok"
        assert (await notebook.run("1")).status == "ok"


@in_a_loop
async def test_shutdown_is_acknowledged_before_the_end() -> None:
    async with open_notebook() as notebook:
        message_id = notebook.control("shutdown_request", {"restart": True})
        reply = await notebook.reply(message_id, "control")
        assert reply["content"] == {"status": "ok", "restart": True}


@in_a_loop
async def test_a_subscriber_is_welcomed() -> None:
    async with open_notebook() as notebook:
        types = [message["msg_type"] for message in notebook.greetings]
        assert "iopub_welcome" in types


@in_a_loop
async def test_a_subscriber_is_told_the_state_which_others_learnt_before_it_came() -> None:
    async with open_notebook() as notebook:
        running = await hold(notebook)
        assert await state_told_to_a_newcomer(notebook) == "busy"
        running.end()
        await notebook.answer(running.id)
        assert await state_told_to_a_newcomer(notebook) == "idle"


@in_a_loop
async def test_a_subscriber_that_comes_while_a_branch_is_saved_by_itself_is_told_of_idle() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%autocheckpoint on")
        async with saving_by_itself(notebook):
            assert await state_told_to_a_newcomer(notebook) == "idle"


async def state_told_to_a_newcomer(notebook: Notebook) -> str:
    second: Any = notebook.client.connect_iopub()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    try:
        while True:
            message = await notebook.client.get_iopub_msg(timeout=120)
            if message["msg_type"] == "status" and not message["parent_header"]:
                return message["content"]["execution_state"]
    finally:
        second.close()


@in_a_loop
async def test_the_heart_beats() -> None:
    async with open_notebook() as notebook:
        await comes_true(notebook.client.hb_channel.is_beating)


@in_a_loop
async def test_a_message_signed_with_another_key_is_not_executed() -> None:
    async with open_notebook() as notebook:
        right_key = notebook.client.session.key
        notebook.client.session.key = b"another"
        notebook.send("forged = 1")
        notebook.client.session.key = right_key
        assert (await notebook.run("'forged' in globals()")).text == "False\n"


@in_a_loop
async def test_without_a_machine_every_cell_says_why_and_kernel_info_is_still_answered() -> None:
    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        if json.loads("true"):
            raise MissingToolError("QEMU is not installed", hint="run `branchpoint setup`")
        yield Opened(FakeSession(), "")

    async with open_with(opening, FakeSession()) as notebook:
        for code in ("1", "%checkpoint a", "%%branch all\n1"):
            answer = await notebook.run(code)
            assert answer.reply["content"]["ename"] == "MissingTool"
            assert answer.reply["content"]["traceback"] == [
                "MissingTool: QEMU is not installed",
                "Hint: run `branchpoint setup`",
            ]
        info = await notebook.reply(notebook.control("kernel_info_request"), "control")
        assert "QEMU is not installed" in info["content"]["banner"]


@in_a_loop
async def test_an_unforeseen_error_at_the_start_is_told_too() -> None:
    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        yield Opened(FakeSession(), str(1 // len("")))

    async with open_with(opening, FakeSession()) as notebook:
        answer = await notebook.run("1")
        assert "unforeseen end: ZeroDivisionError" in answer.text


def test_of_cells_that_wait_long_for_the_machine_the_first_says_for_what_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "TELL_AFTER_S", 0.05)

    @in_a_loop
    async def run() -> None:
        go_on = asyncio.Event()
        working: list[Progress] = []

        @asynccontextmanager
        async def opening(progress: Progress) -> AsyncGenerator[Opened]:
            # As whoever builds an image does it: in a thread.
            await asyncio.to_thread(progress.step, "looking around")
            await asyncio.to_thread(progress.step, "Debian packages")
            working.append(progress)
            await go_on.wait()
            async with FakeSession() as session:
                yield Opened(session, "")

        async with open_with(opening, FakeSession()) as notebook:
            await comes_true(lambda: working)
            hidden = notebook.send("pass", silent=True)
            first, second = notebook.send("print('one')"), notebook.send("print('two')")
            await notebook.wait_output(first, "  Debian packages ...")
            for fraction in (0.2, 0.9):
                working[0].advance(fraction)
            working[0].step("first boot")
            await notebook.wait_output(first, "  first boot ...")
            go_on.set()
            assert (await notebook.answer(hidden)).text == ""
            steps = "  Debian packages ...\n  first boot ...\n"
            assert (await notebook.answer(first)).text == f"{relay_module.COMING_UP}{steps}one\n"
            assert (await notebook.answer(second)).text == "two\n"

    run()


@in_a_loop
async def test_control_requests_before_the_machine_is_up_wait_for_it() -> None:
    go_on = asyncio.Event()

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        await go_on.wait()
        async with FakeSession() as session:
            yield Opened(session, "")

    async with open_with(opening, FakeSession()) as notebook:
        asked = notebook.control("create_subshell_request")
        await asyncio.sleep(0.1)
        go_on.set()
        made = await notebook.reply(asked, "control")
        assert made["content"]["status"] == "ok"


@in_a_loop
async def test_before_the_machine_is_up_kernel_info_is_answered_and_cells_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "TELL_AFTER_S", 3600.0)
    go_on = asyncio.Event()

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        await go_on.wait()
        async with FakeSession() as session:
            yield Opened(session, "")

    async with open_with(opening, FakeSession()) as notebook:
        early = await notebook.reply(notebook.client.kernel_info())
        sent = notebook.send("print('run')")
        assert (await notebook.reply(notebook.client.kernel_info()))["content"]["status"] == "ok"
        go_on.set()
        assert (await notebook.answer(sent)).text == "run\n"
        late = await notebook.reply(notebook.client.kernel_info())
        for reply in (early, late):
            reply["content"]["language_info"].pop("version")
        assert early["content"]["language_info"] == late["content"]["language_info"]
