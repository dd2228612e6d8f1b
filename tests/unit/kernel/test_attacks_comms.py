"""Messages to comms, and from them, that are not as comms have them: dropped, and no more."""

import json
import logging
from typing import Any

import pytest
from tests.support.carrying import hold
from tests.support.front_end import Notebook, in_a_loop, open_notebook
from tests.support.lineage_page import CONTROL, RETURN, LineagePage

from branchpoint_kernel.comms import Comms
from branchpoint_kernel.lineage_host import MOST_CONTROLS
from branchpoint_kernel.messages import Channel, Message, Stamp, message_from_parts
from branchpoint_kernel.publisher import Publisher

Odd = tuple[str, Any]

ODD: dict[str, Odd] = {
    "a text": ("comm_msg", "x"),
    "nothing": ("comm_close", None),
    "a number": ("comm_info_request", 7),
    "an id that is a list": ("comm_open", {"comm_id": [], "target_name": CONTROL, "data": {}}),
    "an id that is an object": ("comm_open", {"comm_id": {}, "target_name": RETURN}),
    "no id": ("comm_open", {"target_name": CONTROL}),
    "no end of brackets": ("comm_msg", "deep"),
    "the end, in a text": ("shutdown_request", "now"),
}


def send(notebook: Notebook, kind: str, content: object, channel: str = "shell") -> None:
    client = notebook.client
    message = client.session.msg(kind, {})
    said = "[" * 100_000 if content == "deep" else json.dumps(content)
    message["content"] = said.encode()
    getattr(client, f"{channel}_channel").send(message)


@pytest.mark.parametrize("channel", ["shell", "control"])
@in_a_loop
async def test_no_message_of_a_page_ends_the_session(
    channel: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with open_notebook() as notebook:
        await LineagePage.open(notebook)
        for kind, content in ODD.values():
            send(notebook, kind, content, channel)
            assert (await notebook.run("1 + 1")).text.strip() == "2", (kind, content)


@in_a_loop
async def test_a_page_that_never_closes_what_it_asks_at_costs_no_more_and_more() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        first, *_, last = [await page.open_control() for _ in range(MOST_CONTROLS + 1)]
        sent = page.say({"method": "request_states"}, last)
        assert len(await page.told(sent)) == 1
        sent = page.say({"method": "request_states"}, first)
        notebook.seen.clear()
        await notebook.run("1 + 1")
        assert not [m for m in notebook.seen if m["content"].get("comm_id") == first]


@in_a_loop
async def test_a_page_that_asks_while_a_cell_runs_is_not_told_that_the_kernel_is_idle() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        notebook.seen.clear()
        running = await hold(notebook)
        await page.comms()
        await page.ask_states()
        await page.told(page.say({"method": "request_state"}))
        await page.told(page.ask_back())
        await notebook.listen(0.3)
        # The end of a question is told as idle, and then the cell as busy.
        while states(notebook)[-1] != "busy":
            await notebook.hear()
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


def states(notebook: Notebook) -> list[str]:
    """What the kernel has been told to be, in order."""
    told = [m["content"] for m in notebook.seen if m["msg_type"] == "status"]
    return [it["execution_state"] for it in told]


class Outlet:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []

    def send(self, channel: Channel, identities: tuple[bytes, ...], frames: list[bytes]) -> None:
        """One more."""
        del channel, identities
        self.sent.append(frames)


def said(kind: str, content: str) -> Message:
    header = json.dumps({"msg_id": "m", "msg_type": kind, "version": "5.3"}).encode()
    return message_from_parts(Channel.IOPUB, [header, b"{}", b"{}", content.encode()])


ODD_INSIDE = [
    '{"comm_id": "w", "data": "a text of its own"}',
    '{"comm_id": "w", "data": {"method": "update", "state": [], "buffer_paths": [[]]}}',
    '{"comm_id": "w", "data": {"method": "update", "buffer_paths": [[]]}}',
    '{"data": {}}',
    "[]",
    '{"comm_id": "w", "data": ' + "[" * 100_000,
]


@pytest.mark.parametrize("content", ODD_INSIDE, ids=range(len(ODD_INSIDE)))
def test_what_a_machine_says_at_a_comm_is_passed_on_whatever_it_is(content: str) -> None:
    outlet = Outlet()
    publisher = Publisher(outlet, Stamp(key=b""))
    Comms(publisher, Stamp(key=b""))
    opening = '{"comm_id": "w", "target_name": "jupyter.widget", "data": {"state": {}}}'
    publisher.forward(said("comm_open", opening))
    publisher.forward(said("comm_msg", content))
    assert len(outlet.sent) == 2
