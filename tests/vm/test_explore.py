"""`explore`: every option in a fork of that very moment, and no machine left behind."""

import pytest
from tests.conftest import StartKernel
from tests.support.live_kernel import LiveKernel, is_qemu, wait_until

pytestmark = pytest.mark.vm

OPTIONS = """\
import branchpoint, os

def attempt(option):
    print('trying', option, flush=True)
    global seen
    seen = option
    if option == 3:
        raise ValueError('three')
    if option == 5:
        # What was printed has a way to go before the machine is no more.
        os.system('sleep 2; echo c > /proc/sysrq-trigger')
    return option * factor

factor, seen = 10, None
results = branchpoint.explore(attempt, range(8))
"""
ENDLESS = """\
import branchpoint, time
def attempt(option):
    time.sleep(600)
print('begun', flush=True)
branchpoint.explore(attempt, range(4))
"""

LEAVING = """\
import branchpoint, threading, time
def leave():
    time.sleep(2)
    if branchpoint.identity().name == "main":
        branchpoint.rollback("ahead")
threading.Thread(target=leave).start()
branchpoint.explore(lambda option: time.sleep(600), range(4))
"""


def test_eight_options_come_home_in_order_whatever_becomes_of_two_of_them(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("None")
    before = len(shared_kernel.machines)
    shared_kernel.run(OPTIONS)
    assert shared_kernel.value("[r.option for r in results]") == "[0, 1, 2, 3, 4, 5, 6, 7]"
    good = shared_kernel.value("[r.value for r in results if r.error is None]")
    assert good == "[0, 10, 20, 40, 60, 70]"
    assert shared_kernel.value("repr(results[3].error)") == "ValueError('three')"
    assert "the machine has ended" in shared_kernel.value("results[5].error")
    assert shared_kernel.value("[r.output.strip() for r in results][:3]") == str(
        ["trying 0", "trying 1", "trying 2"]
    )
    assert shared_kernel.value("all(r.awake_ms > 0 and r.run_ms > 0 for r in results)") == "True"
    assert shared_kernel.value("seen") == "None"
    assert wait_until(lambda: len(shared_kernel.machines) == before)
    assert "explore" not in shared_kernel.run("%branches").text
    assert shared_kernel.value("results[5].output.strip()") == "trying 5"


def test_an_interrupted_exploration_leaves_no_machine_and_the_kernel_goes_on(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("None")
    before = len(shared_kernel.machines)
    sent = shared_kernel.start(ENDLESS)
    shared_kernel.wait_for(sent, lambda cell: "begun" in cell.text)
    assert wait_until(lambda: len(shared_kernel.machines) > before)
    shared_kernel.manager.interrupt_kernel()
    cell = shared_kernel.finish(sent)
    assert cell.error_name == "KeyboardInterrupt"
    assert wait_until(lambda: len(shared_kernel.machines) == before)
    assert shared_kernel.value("1 + 1") == "2"


def test_a_rollback_in_the_middle_of_an_exploration_ends_its_forks(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("kept = 3")
    shared_kernel.run("%checkpoint ahead")
    before = len(shared_kernel.machines)
    left = shared_kernel.run(LEAVING)
    assert "back at ahead" in left.text
    assert wait_until(lambda: len(shared_kernel.machines) == before)
    assert "explore" not in shared_kernel.run("%branches").text
    assert shared_kernel.value("kept, 'leave' in dir()") == "3 False"


def test_a_kernel_that_is_shut_down_in_the_middle_of_an_exploration_leaves_no_machine(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("shut down exploring") as kernel:
        sent = kernel.start(ENDLESS)
        kernel.wait_for(sent, lambda cell: "begun" in cell.text)
        assert wait_until(lambda: len(kernel.processes) > 1)
        machines = kernel.processes
    assert wait_until(lambda: not any(map(is_qemu, machines)))
