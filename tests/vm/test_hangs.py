"""A guest that hangs or breaks: the cell says so, names the way back, and the way works."""

import os
import signal

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

# Deaf to the signal before it says that it has begun: an interrupt may come between two statements.
# A flush returns before ipykernel's other thread has sent, which it cannot without the interpreter.
HOLDS_THE_INTERPRETER = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('begun', flush=True)
time.sleep(2)
sum(range(10**13))
"""
BUSY = "print('begun', flush=True)\nwhile True: pass"
KILL_RELAY = "!pkill -9 -f branchpoint_guestkernel.relay; sleep 60"
PANIC = "!echo c > /proc/sysrq-trigger; sleep 60"


@pytest.fixture(scope="module")
def saved(shared_kernel: LiveKernel) -> LiveKernel:
    """A kernel with a checkpoint `saved`, to which every test here goes back."""
    shared_kernel.run("x = 'before'\n%checkpoint saved\nx = 'after'")
    return shared_kernel


def start(kernel: LiveKernel, code: str) -> str:
    sent = kernel.start(code)
    kernel.wait_for(sent, lambda cell: "begun" in cell.text)
    return sent


def assert_back_at_saved(kernel: LiveKernel) -> None:
    kernel.run("%rollback saved --no-safety")
    assert kernel.value("x") == "before"


def test_an_interrupt_that_is_not_heeded_is_told_and_magics_run_at_once(saved: LiveKernel) -> None:
    sent = start(saved, HOLDS_THE_INTERPRETER)
    saved.manager.interrupt_kernel()
    told = saved.wait_for(sent, lambda cell: "has not ended the cell" in cell.text)
    assert "%rollback saved" in told.text
    assert "saved" in saved.run("%checkpoints").text
    back = saved.start("%rollback saved --no-safety")
    assert saved.finish(sent).status == "error"
    assert saved.finish(back).status == "ok"
    assert saved.value("x") == "before"


def test_a_cell_in_a_machine_that_does_not_answer_is_told_once_and_runs_on(
    saved: LiveKernel,
) -> None:
    sent = start(saved, BUSY)
    (machine,) = saved.machines
    os.kill(machine, signal.SIGSTOP)
    try:
        told = saved.wait_for(sent, lambda cell: "has not answered" in cell.text)
    finally:
        os.kill(machine, signal.SIGCONT)
    assert "%rollback saved" in told.text
    saved.manager.interrupt_kernel()
    cell = saved.finish(sent)
    assert cell.error_name == "KeyboardInterrupt"
    assert cell.text.count("has not answered") == 1
    assert saved.value("1 + 1") == "2"


@pytest.mark.parametrize(
    ("code", "words"),
    [(PANIC, "the machine has ended"), (KILL_RELAY, "relay")],
    ids=["panic", "relay-killed"],
)
def test_what_breaks_the_guest_is_told_and_there_is_a_way_back(
    saved: LiveKernel, code: str, words: str
) -> None:
    cell = saved.run(code, expect="error")
    assert words in cell.text
    assert "%rollback saved" in cell.text
    assert "Traceback" not in cell.text
    assert_back_at_saved(saved)
