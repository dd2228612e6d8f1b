"""Comms and widgets through the whole proxy, while the kernel behind them changes."""

import asyncio
from typing import Any

from tests.support.carrying import start
from tests.support.front_end import Notebook, in_a_loop, open_notebook
from tests.unit.kernel.test_proxy_calls import magic

from branchpoint_kernel.widget_states import CONTROL

OPEN = "import comm\nmine = comm.create_comm(target_name='t', data={'n': 1})\nmine.comm_id"


def comm_messages(notebook: Notebook) -> list[tuple[str, Any]]:
    return [
        (message["msg_type"], message["content"])
        for message in notebook.seen
        if message["msg_type"].startswith("comm_")
    ]


def updates(notebook: Notebook) -> list[dict[str, Any]]:
    """The states that widgets have said."""
    return [
        content["data"]["state"]
        for kind, content in comm_messages(notebook)
        if kind == "comm_msg" and content["data"].get("method") == "update"
    ]


@in_a_loop
async def test_a_comm_the_kernel_lacks_after_a_rollback_is_closed() -> None:
    async with open_notebook() as notebook:
        opened = await notebook.run(OPEN)
        comm_id = opened.text.strip().strip("'")
        notebook.seen.clear()
        await notebook.run("%rollback base")
        await hear_until_last(notebook, "comm_close")
        assert ("comm_close", {"comm_id": comm_id, "data": {}}) in comm_messages(notebook)
        notebook.seen.clear()
        await notebook.run("%rollback base")
        assert comm_messages(notebook) == []


@in_a_loop
async def test_a_comm_that_is_there_again_after_a_switch_is_opened_again() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        opened = await notebook.run(OPEN)
        comm_id = opened.text.strip().strip("'")
        await notebook.run("%switch other")
        await hear_until_last(notebook, "comm_close")
        notebook.seen.clear()
        await notebook.run("%switch main")
        await hear_until_last(notebook, "comm_open")
        [(kind, content)] = comm_messages(notebook)
        assert kind == "comm_open"
        assert content["comm_id"] == comm_id
        assert content["data"] == {"n": 1}


@in_a_loop
async def test_widgets_say_their_state_when_the_notebook_comes_back_to_them() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        await notebook.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
        await notebook.run("slider.value = 7")
        await notebook.run("%switch other")
        await hear_until_last(notebook, "comm_close")
        notebook.seen.clear()
        await notebook.run("%switch main")
        while 7 not in [state.get("value") for state in updates(notebook)]:
            await notebook.hear()


@in_a_loop
async def test_a_page_that_asks_for_widgets_where_there_are_none_is_refused_in_silence() -> None:
    async with open_notebook() as notebook:
        content: dict[str, Any] = {"comm_id": "asked", "target_name": CONTROL, "data": {}}
        send(notebook, "comm_open", content)
        while ("comm_close", {"comm_id": "asked", "data": {}}) not in comm_messages(notebook):
            await notebook.hear()
        await notebook.run("print('mine')")
        printed = [it["content"]["text"] for it in notebook.seen if it["msg_type"] == "stream"]
        assert "".join(printed) == "mine\n"


@in_a_loop
async def test_a_switch_to_a_kernel_in_the_middle_of_something_does_not_wait_for_that() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        opened = await notebook.run(OPEN)
        other = notebook.session.branch("other")
        long = asyncio.create_task(other.run("import time; time.sleep(600)"))
        try:
            assert (await notebook.run("%switch other")).status == "ok"
            assert (await notebook.run("%switch main")).status == "ok"
            assert (await notebook.run("mine.comm_id")).text == opened.text
        finally:
            long.cancel()
            await asyncio.wait({long})


@in_a_loop
async def test_a_kernel_that_was_busy_when_it_was_left_changes_no_widgets_any_more() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        await notebook.run(OPEN)
        running = await start(notebook)
        for name in ("other", "main", "other"):
            async with notebook.session.turn():
                await notebook.session.switch(name)
            # The kernel that is busy tells of none.
            await hear_until_last(notebook, "comm_close")
            await notebook.listen(0.3)
        assert [kind for kind, _ in comm_messages(notebook)][-1] == "comm_close"
        notebook.seen.clear()
        running.end()
        await notebook.answer(running.id)
        await notebook.listen(0.5)
        assert comm_messages(notebook) == []


@in_a_loop
async def test_comms_are_in_step_after_code_has_rolled_back_or_switched() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other\n%checkpoint one")
        comm_id = (await notebook.run(OPEN)).text.strip().strip("'")
        running = await start(notebook)
        notebook.session.current.calls.ask(magic("switch", "other"))
        assert (await hear_of_comm(notebook, "comm_close"))["comm_id"] == comm_id
        running.end()
        await notebook.answer(running.id)
        await notebook.run("%switch main")
        await hear_until_last(notebook, "comm_open")
        await start(notebook)
        notebook.session.current.calls.ask(magic("rollback", "one"))
        assert (await hear_of_comm(notebook, "comm_close"))["comm_id"] == comm_id


async def hear_until_last(notebook: Notebook, kind: str) -> None:
    """Until the last that was said of comms is of that kind: a slow kernel's follow its switch."""
    while [kind for kind, _ in comm_messages(notebook)][-1:] != [kind]:
        await notebook.hear()


async def hear_of_comm(notebook: Notebook, kind: str) -> Any:
    """The next message of that kind."""
    while (message := await notebook.hear())["msg_type"] != kind:
        pass
    return message["content"]


def send(notebook: Notebook, message_type: str, content: dict[str, Any]) -> None:
    """A request on shell."""
    message = notebook.client.session.msg(message_type, content)
    notebook.client.shell_channel.send(message)
