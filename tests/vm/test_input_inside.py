"""A checkpoint taken while a cell waits for a person, and many rollbacks in quick succession."""

from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

ASKING = """\
import branchpoint, threading, time
def save():
    time.sleep(1)
    print(branchpoint.checkpoint('asking'), 'now', flush=True)
saver = threading.Thread(target=save)
saver.start()
name = input('who? ')
saver.join()
print('hello', name)
"""
ROLLBACKS = 100


def answer(kernel: LiveKernel, value: str) -> str:
    """Answer the next question; its prompt."""
    asked: dict[str, Any] = kernel.client.get_stdin_msg(timeout=60)
    kernel.client.input(value)
    return asked["content"]["prompt"]


def test_a_rollback_into_a_wait_for_input_asks_again(shared_kernel: LiveKernel) -> None:
    sent = shared_kernel.start(ASKING, allow_stdin=True)
    asked: dict[str, Any] = shared_kernel.client.get_stdin_msg(timeout=60)
    assert asked["content"]["prompt"] == "who? "
    shared_kernel.wait_for(sent, lambda cell: "saved now" in cell.text)
    shared_kernel.client.input("Ada")
    assert "hello Ada" in shared_kernel.finish(sent).text
    back = shared_kernel.start("%rollback asking", allow_stdin=True)
    assert answer(shared_kernel, "Grace") == "who? "
    assert "hello Grace" in shared_kernel.finish(back).text
    assert shared_kernel.value("name") == "Grace"


@pytest.mark.timeout(900)
def test_a_hundred_rollbacks_in_quick_succession_leave_no_stale_message(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("turn = 0\n%checkpoint start")
    for turn in range(1, ROLLBACKS + 1):
        cell = shared_kernel.run(f"print('turn', turn); turn = {turn}")
        assert cell.text == "turn 0\n"
        back = shared_kernel.run("%rollback start --no-safety")
        assert back.lines[0].startswith("● back at start")
        assert len(back.lines) == 1
