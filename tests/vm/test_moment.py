"""The moment, not the work: what runs at a checkpoint runs on, rolled back and in every fork."""

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

TICKER = """
import subprocess
ticker = subprocess.Popen(
    ["bash", "-c", "i=590; while read line; do i=$((i+1)); echo $i; done"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def tick():
    ticker.stdin.write("\\n"); ticker.stdin.flush()
    return int(ticker.stdout.readline())
ticks = [tick(), tick()]
"""


def test_a_counter_in_a_shell_carries_on_from_its_value_in_each_fork_and_after_rollback(
    kernel: LiveKernel,
) -> None:
    kernel.run(TICKER)
    kernel.run("%checkpoint loaded")
    kernel.run("%fork 3 --names a,b,c")
    assert kernel.value("tick(), tick()") == "593 594"
    forks = kernel.run("%%branch all\nprint(tick(), ticker.pid)").text
    kernel.run("%rollback loaded")
    assert kernel.value("tick()") == "593"
    pid = kernel.value("ticker.pid")
    assert forks.count(f"593 {pid}") == 3
