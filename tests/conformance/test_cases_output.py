"""Cases from other projects' bug reports: outputs, displays and widgets, over a rollback above all.

docs/fidelity.md says which case is which; those without a rollback are snippets.
"""

import pytest
from tests.conformance.recorder import FrontEnd, Heard
from tests.support.live_kernel import LiveKernel

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

SLIDER = """
import ipywidgets
slider = ipywidgets.IntSlider(7)
slider.observe(lambda change: print('moved to', change['new']), 'value')
"""


def values_told(messages: list[Heard], comm: str) -> list[object]:
    """The values that the kernel has told a comm's front ends."""
    states = [
        message.content["data"].get("state", {})
        for message in messages
        if message.type == "comm_msg" and message.content["comm_id"] == comm
    ]
    return [state["value"] for state in states if "value" in state]


def moved(value: int) -> dict[str, object]:
    """What a front end tells of a slider that was moved."""
    return {"method": "update", "state": {"value": value}, "buffer_paths": list[str]()}


def test_a_slider_shows_the_checkpoints_value_after_a_rollback_and_still_works(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    opened = front_end.of(front_end.run(SLIDER), "comm_open")[-1].content["comm_id"]
    front_end.run("%checkpoint seven")
    front_end.tell("comm_msg", comm_id=opened, data=moved(3))
    later = front_end.of(front_end.run("later = ipywidgets.Label('l')"), "comm_open")
    front_end.begin()
    rolled_back = front_end.run("%rollback seven")
    front_end.wait(lambda: values_told(front_end.heard, opened))
    assert values_told(front_end.heard, opened)[-1] == 7
    front_end.run("slider.value")
    closed = {m.content["comm_id"] for m in front_end.of(rolled_back, "comm_close")}
    assert closed == {message.content["comm_id"] for message in later}
    front_end.begin()
    front_end.tell("comm_msg", comm_id=opened, data=moved(5))
    said = "".join(m.content["text"] for m in front_end.heard if m.type == "stream")
    assert "moved to 5\n" in said


def test_an_update_of_a_display_made_before_a_checkpoint_reaches_it_after_the_rollback(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    front_end.run("handle = display('first', display_id='kept')")
    front_end.run("%checkpoint displayed")
    front_end.run("handle.update('abandoned'); late = display('late', display_id='late')")
    front_end.run("%rollback displayed")
    cell = front_end.run("handle.update('second')")
    (update,) = front_end.of(cell, "update_display_data")
    assert update.content["transient"] == {"display_id": "kept"}
    assert update.content["data"]["text/plain"] == "'second'"
    # What was displayed in the abandoned future is nothing that the kernel could update.
    lost = front_end.run("late.update('never')")
    assert front_end.reply(lost)["ename"] == "NameError"


def test_figures_are_each_in_their_own_cell_also_with_a_checkpoint_between(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    front_end.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    plot = "plt.figure(figsize=(1, 1)); plt.plot([1, {}]);"
    cells = [plot.format(1), "%checkpoint plotted", plot.format(2), "%rollback plotted", "1;"]
    sent = [front_end.run(code) for code in cells]
    figures = [
        len([m for m in front_end.of(cell, "display_data") if "image/png" in m.content["data"]])
        for cell in sent
    ]
    assert figures == [1, 0, 1, 0, 0]


def test_what_a_thread_prints_after_a_rollback_with_widgets_is_under_the_rollback(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    starting = front_end.run(
        "import ipywidgets, threading\nshown = ipywidgets.Label('l')\nstop = threading.Event()\n"
        "def say():\n    while not stop.wait(0.1): print('said', flush=True)\n"
        "threading.Thread(target=say).start()"
    )
    front_end.wait_text(starting, "said")
    front_end.run("%checkpoint saying")
    rolled_back = front_end.execute("%rollback saying")
    # The widgets' states have been asked for since, by a request that no front end knows.
    front_end.wait_text(rolled_back, "said")
    front_end.finish(rolled_back)
    front_end.run("stop.set()")
