"""The widget of `%lineage` on a real machine: it answers, and shows the truth, whatever happens."""

import time
from collections.abc import Callable
from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from tests.support.lineage_page import CONTROL, WIDGET_VIEW, WIDGETS
from tests.support.live_kernel import PATIENCE_S, LiveKernel

pytestmark = pytest.mark.vm

ENDLESS = "import time\nprint('on', flush=True)\ntime.sleep(600)"
Message = dict[str, Any]


class Page:
    """A page with the widget, that reads what is published itself."""

    def __init__(self, kernel: LiveKernel, model: str) -> None:
        self.kernel = kernel
        self.model = model

    def say(self, kind: str, content: Message, metadata: Message | None = None) -> str:
        """Send a message on shell."""
        message = self.kernel.client.session.msg(kind, content, metadata=metadata)
        self.kernel.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def hear(self, is_wanted: Callable[[Message], bool]) -> Message:
        """The next message at a comm that is as wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                message: Message = self.kernel.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["msg_type"] == "comm_msg" and is_wanted(message["content"]):
                return message["content"]["data"]
        raise AssertionError("it was not said")

    def act(self, op: str, **fields: Any) -> Message:
        """Ask for something; the answer."""
        number = uuid4().hex
        content = {"id": number, "op": op, **fields}
        data = {"method": "custom", "content": content}
        self.say("comm_msg", {"comm_id": self.model, "data": data})
        answer = self.hear(lambda it: it["data"].get("content", {}).get("id") == number)
        return answer["content"]

    def states(self) -> Message:
        """What a page is told that is loaded anew."""
        control = uuid4().hex
        opened: Message = {"comm_id": control, "target_name": CONTROL, "data": {}}
        self.say("comm_open", opened, {"version": "1.0.0"})
        asked = {"comm_id": control, "data": {"method": "request_states"}}
        self.say("comm_msg", asked)
        return self.hear(lambda it: it["comm_id"] == control)["states"]

    def view(self) -> Message:
        """What it shows now."""
        return self.states()[self.model]["state"]["view"]

    def labels(self) -> list[str]:
        """The checkpoints' it shows."""
        return [it["facts"]["label"] for it in self.view()["checkpoints"]]

    def comms(self) -> set[str]:
        """The widgets' comms there are."""
        asked = self.say("comm_info_request", {"target_name": WIDGETS})
        while (reply := self.kernel.client.get_shell_msg(timeout=PATIENCE_S))["parent_header"][
            "msg_id"
        ] != asked:
            pass
        return set(reply["content"]["comms"])

    def branch(self, name: str) -> Message:
        """What it shows of a branch."""
        (shown,) = [it for it in self.view()["branches"] if it["facts"]["name"] == name]
        return shown["facts"]


def show(kernel: LiveKernel) -> list[Message]:
    """Run `%lineage` as a page does; what it displayed."""
    return kernel.finish(kernel.start("%lineage", allow_stdin=True)).displays


@pytest.fixture(scope="module")
def page(shared_kernel: LiveKernel) -> Page:
    # Without it ipykernel says of what a page asks that it knows none, in whatever cell runs then.
    shared_kernel.run("import ipywidgets\nn = 1")
    shared_kernel.run("%checkpoint one")
    return Page(shared_kernel, show(shared_kernel)[0][WIDGET_VIEW]["model_id"])


def test_run_five_times_it_is_the_same_widget_with_the_same_two_comms(page: Page) -> None:
    before = page.comms()
    shown = [show(page.kernel)[0][WIDGET_VIEW]["model_id"] for _ in range(5)]
    assert set(shown) == {page.model}
    assert page.comms() == before
    assert len(before) == 2


def test_after_ten_rollbacks_it_shows_the_truth(page: Page) -> None:
    before = page.comms()
    for _ in range(10):
        page.kernel.run("%rollback one --no-safety")
    view = page.view()
    done = [it["op"] for it in view["operations"]]
    assert done.count("rollback") == 10
    assert page.branch("main")["head_label"] == "one"
    assert page.comms() == before
    assert page.kernel.value("n") == "1"


def test_a_rollback_asked_for_in_it_is_done_and_told_the_next_cell(page: Page) -> None:
    page.kernel.run("n = 2")
    preview = page.act("preview", target="one")["done"]
    assert "n = 2" in preview["text"]
    done = page.act("rollback", target="one", safety=False)["done"]
    assert done["checkpoint"]["label"] == "one"
    told = page.kernel.run("print(n)").text
    assert "main is back at one   asked for in the lineage view at" in told
    assert told.endswith("\n1\n")


def test_while_a_cell_runs_it_answers_does_what_can_be_done_and_refuses_the_rest(
    page: Page,
) -> None:
    sent = page.kernel.start(ENDLESS)
    page.kernel.wait_for(sent, lambda cell: "on" in cell.text)
    assert page.branch("main")["busy"]
    refused = page.act("pause", name="main")["refused"]
    assert refused["message"] == "code runs in branch 'main'"
    assert page.act("checkpoint", label="inside")["done"]["label"] == "inside"
    assert "inside" in page.labels()
    page.kernel.manager.interrupt_kernel()
    assert page.kernel.finish(sent).error_name == "KeyboardInterrupt"


def test_a_page_loaded_anew_finds_it_beside_a_widget_in_the_machine(page: Page) -> None:
    page.kernel.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=37)")
    states = page.states()
    assert states[page.model]["model_name"] == "AnyModel"
    assert 37 in [it["state"].get("value") for it in states.values()]
    assert page.model in page.comms()


def test_while_the_machine_is_paused_it_shows_that_and_does_not_wake_it(page: Page) -> None:
    page.kernel.run("%pause")
    assert page.branch("main")["state"] == "paused"
    assert page.model in page.comms()
    assert page.branch("main")["state"] == "paused"
    assert page.act("resume")["done"]["branch"]["state"] == "live"
    assert page.kernel.value("n") == "1"


def test_a_name_it_does_not_know_is_refused_in_words(page: Page) -> None:
    refused = page.act("switch", name="mian")["refused"]
    assert "mian" in refused["message"]
    assert refused["hint"]
