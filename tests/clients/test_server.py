"""Behind a real Jupyter server kernels restart, die, are left and dropped as any others."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.jupyter_server import JupyterServer, Message, jupyter_server
from tests.support.live_kernel import qemu_processes, wait_until

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

RESTARTS = 10
UNTIL_INTERRUPTED = """
import time
try:
    print('on', flush=True)
    while True:
        time.sleep(0.1)
except KeyboardInterrupt:
    print('kept')
"""


@pytest.fixture(scope="module")
def server(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    """A Jupyter server without pages."""
    assert home.database.exists()
    with jupyter_server("jupyter_server", tmp_path_factory.mktemp("server")) as started:
        yield started
        assert "Traceback" not in started.log


def has_begun(message: Message) -> bool:
    """Whether the cell has said so; a slow host's first cell is told that its machine comes up."""
    return message["msg_type"] == "stream" and message["content"]["text"].startswith("on")


def test_ten_restarts_keep_the_ports_and_tell_every_state(server: JupyterServer) -> None:
    kernel = server.start_kernel()
    ports = server.ports(kernel)
    processes = {server.pid(kernel)}
    for _ in range(RESTARTS):
        assert server.ask("POST", f"kernels/{kernel}/restart").status_code == 200
        processes.add(server.pid(kernel))
        assert server.ports(kernel) == ports
        with server.connect(kernel) as page:
            assert page.states(page.send("kernel_info_request", {})) == ["busy", "idle"]
            assert page.run("print(1 + 1)") == "2\n"
        assert wait_until(lambda: server.state(kernel) == "idle")
    assert len(processes) == RESTARTS + 1
    server.ask("DELETE", f"kernels/{kernel}")


def test_a_restart_reaches_a_page_that_stays_open(server: JupyterServer) -> None:
    kernel = server.start_kernel()
    with server.connect(kernel) as page:
        page.run("x = 1")
        assert server.ask("POST", f"kernels/{kernel}/restart").status_code == 200
        assert page.run("print('x' in globals())") == "False\n"
        asked = page.send("kernel_info_request", {})
        assert page.states(asked) == ["busy", "idle"]
    server.ask("DELETE", f"kernels/{kernel}")


def test_a_kernel_killed_while_busy_and_unwatched_is_idle_again(server: JupyterServer) -> None:
    kernel = server.start_kernel()
    with server.connect(kernel) as page:
        page.run("%checkpoint saved")
        page.wait(page.execute("print('on', flush=True)\nwhile True: pass"), has_begun)
    assert wait_until(lambda: server.state(kernel) == "busy")
    killed = server.pid(kernel)
    os.kill(killed, signal.SIGKILL)
    assert wait_until(lambda: server.state(kernel) == "idle")
    assert server.pid(kernel) != killed
    with server.connect(kernel) as page:
        assert "saved" in page.run("%checkpoints\nprint('saved')")
    server.ask("DELETE", f"kernels/{kernel}")


def test_a_dropped_websocket_is_no_death_and_its_output_is_kept(server: JupyterServer) -> None:
    kernel = server.start_kernel()
    process = server.pid(kernel)
    with server.connect(kernel, session="a-page") as page:
        asked = page.execute(UNTIL_INTERRUPTED)
        page.wait(asked, has_begun)
    assert wait_until(lambda: server.ask("GET", f"kernels/{kernel}").json()["connections"] == 0)
    assert server.ask("POST", f"kernels/{kernel}/interrupt").status_code == 204
    assert wait_until(lambda: server.state(kernel) == "idle")
    with server.connect(kernel, session="a-page") as page:
        assert page.printed(asked) == "kept\n"
        assert page.run("print(time.__name__)") == "time\n"
    assert server.pid(kernel) == process
    server.ask("DELETE", f"kernels/{kernel}")


def test_interrupt_and_delete_of_a_kernel_that_is_booting_leave_nothing(
    server: JupyterServer, home: Home
) -> None:
    folder = server.folder / "other-size"
    folder.mkdir()
    # No base checkpoint is of this size, so it boots.
    (folder / "branchpoint.yaml").write_text("machine: 1vcpu-640mb\n")
    kernel = server.start_kernel(path=f"{folder.name}/a.ipynb")
    before = _machines(home)
    assert wait_until(lambda: _machines(home) - before)
    assert server.ask("POST", f"kernels/{kernel}/interrupt").status_code == 204
    assert server.ask("DELETE", f"kernels/{kernel}").status_code == 204
    assert wait_until(lambda: not _machines(home) - before)


def _machines(home: Home) -> set[int]:
    return set(qemu_processes(Path(home.root)))
