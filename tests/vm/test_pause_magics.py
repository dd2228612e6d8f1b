"""Pausing and resuming a notebook's machine: the moment goes on, widgets and threads too."""

import time

import pytest
from tests.support.live_kernel import PATIENCE_S, LiveKernel, is_qemu, wait_until

pytestmark = pytest.mark.vm

TICKER = """
import itertools, os, threading, time
ticker, ticks = itertools.count(593), []
def tick():
    while True:
        ticks.append(next(ticker))
        time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
"""
SLIDER = """
import comm
slider = comm.create_comm(target_name='slider', comm_id='slider')
slider.on_msg(lambda message: print('moved to', message['content']['data']['to']))
"""


def test_the_next_cell_carries_a_paused_machine_on_in_the_same_moment(
    shared_kernel: LiveKernel,
) -> None:
    kernel = shared_kernel
    kernel.run(TICKER + SLIDER)
    pid = kernel.value("os.getpid()")
    paused = kernel.run("n = len(ticks)\n%pause")
    assert paused.record["freed_bytes"] > 0
    assert wait_until(lambda: not kernel.processes), "a paused branch has a QEMU"
    resumed = kernel.run(
        # A copy, since the ticker goes on meanwhile.
        "seen = list(ticks)\nprint(os.getpid(), seen == list(range(593, 593 + len(seen))))"
    )
    assert resumed.record["op"] == "resume"
    assert resumed.lines[0].startswith("▶ main resumed in ")
    assert resumed.lines[-1] == f"{pid} True"
    kernel.run("m = len(ticks)\nwhile len(ticks) == m: time.sleep(0.05)")


def test_a_widget_moved_while_its_kernel_is_paused_reaches_it(shared_kernel: LiveKernel) -> None:
    kernel, client = shared_kernel, shared_kernel.client
    kernel.run(SLIDER)
    kernel.run("%pause")
    kernel.manager.interrupt_kernel()
    message = client.session.msg("comm_msg", {"comm_id": "slider", "data": {"to": 7}})
    client.shell_channel.send(message)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        heard = client.get_iopub_msg(timeout=PATIENCE_S)
        if heard["msg_type"] == "stream" and "moved to 7" in heard["content"]["text"]:
            break
    else:
        pytest.fail("the widget's kernel has not heard of it")
    assert kernel.value("'slider' in globals()") == "True"


def test_a_loop_pauses_and_resumes_another_branch_and_not_its_own(
    shared_kernel: LiveKernel,
) -> None:
    kernel = shared_kernel
    kernel.run("x = 1\n%fork 1 --names other")
    # One may stand by, which is no branch's.
    before = set(kernel.machines)
    kernel.run("for name in ['other']:\n    %pause {name}")
    assert wait_until(lambda: sum(map(is_qemu, before)) < len(before))
    assert "paused" in next(line for line in kernel.run("%branches").lines if "other" in line)
    refused = kernel.run("if True:\n    %pause", expect="error")
    assert "cannot pause the machine it runs in" in refused.text
    assert "▶ other resumed" in kernel.run("%%branch other\nx").text
