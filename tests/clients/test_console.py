"""`jupyter console` runs the quickstart, its cells typed at a terminal, and interrupts with ^C."""

import sys
from collections.abc import Generator

import pytest
from tests.support.live_kernel import children, command_line, wait_until
from tests.support.quickstart import assert_last_cell, sources
from tests.support.terminal import Terminal, at_a_terminal

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

CONSOLE = [
    *(sys.executable, "-m", "jupyter_console", "--kernel=branchpoint", "--no-confirm-exit"),
    # Asked, it takes any late reply for the answer, and misses output from then on.
    "--ZMQTerminalInteractiveShell.use_kernel_is_complete=False",
]


@pytest.fixture(scope="module")
def console(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[Terminal]:
    """A console with its first prompt."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("console")
    with at_a_terminal(CONSOLE, folder, BRANCHPOINT_SESSION="console") as terminal:
        terminal.wait_prompt()
        yield terminal
        kernels = children(terminal.process.pid)
    assert wait_until(lambda: not any(map(command_line, kernels)))


def test_it_runs_the_quickstart(console: Terminal) -> None:
    shown = ""
    for code in sources():
        shown = console.enter(code)
        assert "Traceback" not in shown
        assert "Error: " not in shown
    assert_last_cell(shown)


def test_control_c_interrupts_a_loop(console: Terminal) -> None:
    console.submit("print('o', 'n')\nwhile True: pass")
    console.wait_output("o n")
    console.press(b"\x03")
    assert "KeyboardInterrupt" in console.wait_prompt()
    assert "kept on" in console.enter("print('kept', 'on')")


def test_control_d_ends_the_console_the_kernel_and_its_machines(console: Terminal) -> None:
    (kernel,) = children(console.process.pid)
    machines = children(kernel)
    assert machines
    console.press(b"\x04")
    assert console.process.wait(60) == 0
    assert wait_until(lambda: not any(map(command_line, [kernel, *machines])))
