"""What threads print is seen, also when the last the kernel heard was a request of our own."""

from tests.support.front_end import Message, in_a_loop, open_notebook

from branchpoint_guestkernel.runs import own_request
from branchpoint_kernel.asides import Asides
from branchpoint_kernel.conversations import Marker, Silent
from branchpoint_kernel.messages import Channel, made

TICKING = """
import threading, time
def tick():
    while not stop.wait(0.05):
        print('tick', flush=True)
stop = threading.Event()
threading.Thread(target=tick).start()
print('on', flush=True)
time.sleep(300)
"""


def streams_in(messages: list[Message]) -> list[str]:
    """The requests under which something was printed."""
    return [m["parent_header"]["msg_id"] for m in messages if m["msg_type"] == "stream"]


@in_a_loop
async def test_a_threads_output_after_an_interrupt_still_bears_its_cell() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send(TICKING)
        await notebook.wait_output(sent, "on")
        await notebook.reply(notebook.control("interrupt_request"), "control")
        await notebook.answer(sent)
        # The nudges are over by then.
        await notebook.listen(1.0)
        notebook.seen.clear()
        while len(printed := streams_in(notebook.seen)) < 3:
            await notebook.hear()
        await notebook.run("stop.set()")
        assert set(printed) == {sent}


@in_a_loop
async def test_output_between_a_request_of_ours_and_the_first_of_a_front_end_has_a_place() -> None:
    asides = Asides()
    ours = made(Channel.SHELL, "kernel_info_request", {})
    asides.note_sent(ours, Silent())
    asides.begin_under(b'{"msg_id": "who asked"}')
    said = made(Channel.IOPUB, "stream", {"name": "stdout", "text": "x"}, parent=ours.header)
    assert asides.attributed(said).parent_id == "who asked"


@in_a_loop
async def test_states_and_replies_stay_with_the_request_of_ours() -> None:
    asides = Asides()
    ours = made(Channel.SHELL, "kernel_info_request", {})
    asides.note_sent(ours, Marker())
    state = made(Channel.IOPUB, "status", {"execution_state": "idle"}, parent=ours.header)
    assert asides.attributed(state) is state


@in_a_loop
async def test_output_after_code_that_a_terminal_ran_bears_the_last_request_of_a_front_end() -> (
    None
):
    asides = Asides()
    asides.begin_under(b'{"msg_id": "who asked"}')
    _, (header, *_) = own_request(7, "execute_request", {})
    said = made(Channel.IOPUB, "stream", {"name": "stdout", "text": "x"}, parent=header)
    assert asides.attributed(said).parent_id == "who asked"
