"""What was saved is there again: in a new kernel, after kill -9, after a reboot of the host."""

import contextlib
import os
import shutil
import signal

import pytest
from tests.conftest import StartKernel
from tests.support.live_kernel import is_qemu, wait_until

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm


def test_a_checkpoint_is_gone_back_to_in_a_new_kernel_after_everything_was_killed_and_cleared(
    start_kernel: StartKernel, home: Home
) -> None:
    with start_kernel("returned") as kernel:
        assert "was here before" not in kernel.run("x = iter(range(593, 700)); next(x)").text
        kernel.run("%checkpoint loaded")
        kernel.run("y = 1")
        kernel.run("%pause")
        kernel.run("y += 1")
        machines = kernel.processes
        for pid in (kernel.pid, *machines):
            # The kernel takes its machines with it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not any(map(is_qemu, machines)))
    # As a reboot leaves it: nothing runs, what was in run folders and caches is gone.
    for folder in (home.run, home.live, home.flat):
        shutil.rmtree(folder)
    with start_kernel("returned") as kernel:
        first = kernel.run("1")
        assert "%switch main~1 carries on from paused-main-1" in first.text
        assert "%rollback loaded goes back" in first.text
        assert "was here before" not in kernel.run("2").text
        with start_kernel("returned") as second:
            told = second.run("3").text
            assert "another kernel has this notebook's session open" in told
            assert "was here before" not in told
            assert "loaded" not in second.run("%checkpoints").text
        kernel.run("%rollback loaded")
        assert kernel.value("next(x)") == "594"
        kernel.run("%switch main~1")
        assert kernel.value("y") == "1"
        kernel.manager.restart_kernel(now=False)
        kernel.client.wait_for_ready(timeout=120)
        assert kernel.run("print(1)").text == "1\n"
        kernel.run("%rollback loaded")
        assert kernel.value("next(x)") == "594"
