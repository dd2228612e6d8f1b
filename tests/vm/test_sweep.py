"""What an owner that was killed leaves on the disk is removed by whoever comes next."""

import os
import signal

import pytest
from tests.conftest import StartKernel
from tests.support.live_kernel import wait_until

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm


def test_what_a_killed_kernel_left_is_removed_and_its_checkpoints_stay(
    start_kernel: StartKernel, home: Home
) -> None:
    with start_kernel("killed") as kernel:
        kernel.run("x = 'kept'")
        kernel.run("%checkpoint kept")
        kernel.run("%rollback kept")
        left = {folder.name for folder in home.live.iterdir()}
        os.kill(kernel.pid, signal.SIGKILL)
        assert wait_until(lambda: not kernel.manager.is_alive())
    assert left & {folder.name for folder in home.live.iterdir()}
    assert left & {socket.stem for socket in home.run.glob("*.sock")}
    with start_kernel("another") as other:
        other.run("1")
        assert not left & {folder.name for folder in home.live.iterdir()}
        assert not left & {folder.name for folder in home.flat.iterdir()}
        assert not left & {socket.stem for socket in home.run.glob("*.sock")}
    with start_kernel("killed") as kernel:
        kernel.run("%rollback kept")
        assert kernel.value("x") == "kept"
