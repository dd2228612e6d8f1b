"""Comms and widgets through the whole proxy, while the kernel behind them changes."""

from typing import Any

from tests.support.front_end import Notebook, in_a_loop, open_notebook

OPEN = "import comm\nmine = comm.create_comm(target_name='t', data={'n': 1})\nmine.comm_id"


def comm_messages(notebook: Notebook) -> list[tuple[str, Any]]:
    return [
        (message["msg_type"], message["content"])
        for message in notebook.seen
        if message["msg_type"].startswith("comm_")
    ]


@in_a_loop
async def test_a_comm_the_kernel_lacks_after_a_rollback_is_closed() -> None:
    async with open_notebook() as notebook:
        opened = await notebook.run(OPEN)
        comm_id = opened.text.strip().strip("'")
        notebook.seen.clear()
        await notebook.run("%rollback base")
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
        notebook.seen.clear()
        await notebook.run("%switch main")
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
        notebook.seen.clear()
        await notebook.run("%switch main")
        await notebook.run("1")
        states = [
            content["data"]["state"]
            for kind, content in comm_messages(notebook)
            if kind == "comm_msg" and content["data"].get("method") == "update"
        ]
        assert 7 in [state.get("value") for state in states]
