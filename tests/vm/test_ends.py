"""However something ends, nothing is left behind, the user hears of it, and there is a way back."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.conftest import StartKernel
from tests.support.live_kernel import (
    PATIENCE_S,
    Cell,
    LiveKernel,
    is_qemu,
    qemu_processes,
    wait_until,
)

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

BUSY_CELL = "print('begun', flush=True)\nwhile True: pass"


def sockets(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_socket()]


def start_busy(kernel: LiveKernel) -> str:
    """Send a cell that never ends, and wait until it runs."""
    sent = kernel.start(BUSY_CELL)
    kernel.wait_for(sent, lambda cell: "begun" in cell.text)
    return sent


def assert_in_words(cell: Cell, *words: str) -> None:
    """The cell failed, and says why to people, not with where in our code."""
    assert cell.status == "error"
    assert "Traceback" not in cell.text
    assert 'File "' not in cell.text
    for word in words:
        assert word in cell.text


def assert_back_at_saved(kernel: LiveKernel) -> None:
    kernel.run("%rollback saved")
    assert kernel.value("x") == "before"


@pytest.fixture
def saved(kernel: LiveKernel) -> LiveKernel:
    """A kernel that has a checkpoint `saved`, where x is "before", and went on from there."""
    kernel.run("x = 'before'\n%checkpoint saved\nx = 'after'")
    return kernel


def kill_kernel_process(kernel: LiveKernel) -> list[int]:
    """Kill -9 of what Jupyter started, and of nothing else; the QEMUs it had."""
    machines = kernel.processes
    os.kill(kernel.pid, signal.SIGKILL)
    assert wait_until(lambda: not kernel.manager.is_alive())
    return machines


def test_a_killed_kernel_process_takes_its_machines_along(
    home: Home, start_kernel: StartKernel
) -> None:
    with start_kernel("killed") as kernel:
        kernel.run("%fork 2")
        assert len(kernel.machines) == 3
        machines = kill_kernel_process(kernel)
        assert wait_until(lambda: not any(map(is_qemu, machines)))
    # What a killed process answered at stays, with nobody there, until the next one sweeps it.
    left = sockets(home.run)
    assert sockets(home.root) == left
    for path in left:
        with socket.socket(socket.AF_UNIX) as caller, pytest.raises(ConnectionRefusedError):
            caller.connect(str(path))


def test_a_killed_kernel_processs_checkpoints_are_usable_from_a_new_kernel(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("continued") as kernel:
        kernel.run("numbers = iter(range(100))\nnext(numbers)\n%checkpoint saved --note mine")
        kernel.run("%fork 1 --names other")
        session = kernel.run("%branches").record["session"]
        kill_kernel_process(kernel)
    with start_kernel("continued") as kernel:
        assert kernel.run("'numbers' in globals()").lines[-1] == "False"
        listed = kernel.run("%checkpoints")
        assert listed.record["session"] == session
        assert "saved" in listed.text
        kernel.run("%rollback saved")
        assert kernel.value("next(numbers)") == "1"


def test_a_branch_lost_with_its_kernel_process_wakes_from_its_last_checkpoint(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("ends-lost") as kernel:
        kernel.run("%fork 1 --names other\n%switch other\nx = 'saved'\n%checkpoint own")
        kernel.run("x = 'not saved'")
        kill_kernel_process(kernel)
    with start_kernel("ends-lost") as kernel:
        kernel.run("%switch other~1")
        assert kernel.value("x, branch.name") == "saved other~1"


def test_a_checkpoint_cut_off_by_kill_9_leaves_the_session_usable(
    home: Home, start_kernel: StartKernel
) -> None:
    with start_kernel("cut-off") as kernel:
        kernel.run("x = 'before'\n%checkpoint saved")
        session = kernel.run("%branches").record["session"]
        # Enough to write that it is not done in a blink, wherever in it the kill arrives.
        kernel.run("ballast = __import__('os').urandom(24 << 20)")
        kernel.start("%checkpoint never")
        layers = home.layers / session
        # It may be there for no longer than some hundredths of a second.
        deadline = time.monotonic() + PATIENCE_S
        while not any(layers.glob("*.part")):
            assert time.monotonic() < deadline, "nothing is written"
        kill_kernel_process(kernel)
    with start_kernel("cut-off") as kernel:
        points = kernel.run("%checkpoints").record["checkpoints"]
        assert not list(layers.glob("*.part"))
        for point in points:
            kernel.run(f"%rollback {point['id']} --no-safety")
        assert_back_at_saved(kernel)


def test_a_cell_ends_in_words_when_qemu_is_killed_under_it(saved: LiveKernel) -> None:
    process = saved.pid
    sent = start_busy(saved)
    (machine,) = saved.machines
    os.kill(machine, signal.SIGKILL)
    assert_in_words(saved.finish(sent), "killed by signal 9", "%rollback")
    assert saved.pid == process
    assert saved.manager.is_alive()


def test_the_next_cell_after_qemu_was_killed_says_so_and_rollback_works(saved: LiveKernel) -> None:
    (machine,) = saved.machines
    os.kill(machine, signal.SIGKILL)
    assert wait_until(lambda: not is_qemu(machine))
    assert_in_words(saved.run("x", expect="error"), "killed by signal 9", "%rollback")
    assert_back_at_saved(saved)


def test_a_killed_fork_ends_its_side_in_words_and_the_others_run_on(saved: LiveKernel) -> None:
    before = set(saved.machines)
    saved.run("%fork 1 --names fork")
    (fork,) = set(saved.machines) - before
    os.kill(fork, signal.SIGKILL)
    assert wait_until(lambda: not is_qemu(fork))
    assert_in_words(saved.run("%%branch fork\nx", expect="error"), "fork")
    assert saved.value("x") == "after"
    saved.run("%switch fork")
    assert saved.value("x, branch.name") == "after fork"


def test_a_killed_kernel_in_the_guest_is_never_replaced_by_a_fresh_one(saved: LiveKernel) -> None:
    cell = saved.run("import os; os.kill(os.getpid(), 9)", expect="error")
    assert_in_words(cell, "the kernel inside the machine", "signal 9", "%rollback")
    assert_in_words(saved.run("1 + 1", expect="error"), "the kernel inside the machine")
    assert_back_at_saved(saved)


def test_a_kernel_that_exits_by_itself_is_reported_in_words(saved: LiveKernel) -> None:
    cell = saved.run("import os; os._exit(3)", expect="error")
    assert_in_words(cell, "the kernel inside the machine", "status 3", "%rollback")
    assert_back_at_saved(saved)


def test_a_guest_out_of_memory_is_told_as_such(saved: LiveKernel) -> None:
    cell = saved.run("hog = [b'x' * (32 << 20) for _ in range(64)]", expect="error")
    assert_in_words(cell, "memory", "%rollback")
    assert_back_at_saved(saved)


def test_a_guest_that_powers_off_is_told_as_such(saved: LiveKernel) -> None:
    cell = saved.run("!echo o > /proc/sysrq-trigger; sleep 60", expect="error")
    assert_in_words(cell, "the machine has ended", "%rollback")
    assert_back_at_saved(saved)


def test_a_magic_gets_through_to_a_stopped_qemu_and_rollback_works(saved: LiveKernel) -> None:
    sent = start_busy(saved)
    (machine,) = saved.machines
    os.kill(machine, signal.SIGSTOP)
    queued = saved.start("%checkpoints")
    listed = saved.finish(queued)
    assert listed.status in ("ok", "aborted")
    assert_in_words(saved.finish(sent), "did not answer", "%rollback")
    assert_back_at_saved(saved)
    assert not is_qemu(machine)


def test_a_shut_down_kernel_leaves_no_machine(home: Home, start_kernel: StartKernel) -> None:
    with start_kernel("shut-down") as kernel:
        kernel.run("%fork 1")
        machines = kernel.processes
        assert len(machines) >= 2
        kernel.manager.shutdown_kernel(now=False)
        assert wait_until(lambda: not any(map(is_qemu, machines)))
        assert not kernel.manager.is_alive()
    assert sockets(home.root) == []


def test_a_restarted_kernel_is_fresh_leaves_no_machine_and_has_its_checkpoints(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("ends-restarted") as kernel:
        kernel.run("x = 'before'\n%checkpoint saved")
        machines = kernel.processes
        kernel.manager.restart_kernel(now=False)
        kernel.client.wait_for_ready(timeout=PATIENCE_S)
        assert wait_until(lambda: not any(map(is_qemu, machines)))
        assert kernel.run("'x' in globals()").text.strip() == "False"
        assert_back_at_saved(kernel)


def test_no_machine_outlives_the_tests_before(home: Home) -> None:
    assert wait_until(lambda: not qemu_processes(home.root))
