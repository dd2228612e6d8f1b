"""Run inside the guest by its Python: times a stock ipykernel there, without relay or proxy.

`python3 -c SOURCE CELLS DISPLAYS INTERRUPTS` starts one, and prints a JSON object: for each of
"cell", "display" and "interrupt" so many times, in milliseconds.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

CELL = "1+1"
DISPLAY = "display({'application/x-large': 'x' * (128 << 20)}, raw=True)"
SLEEP = "import time; print(flush=True); time.sleep(60)"
WARM_UP = 5
ASLEEP_S = 0.3


def wait_until_heard(client: Any) -> None:
    """Wait until the kernel answers and its output arrives.

    `wait_for_ready` takes a start as slow as an emulated one for a death.
    """
    output = client.iopub_channel.socket
    heard = False
    while not heard:
        client.kernel_info()
        client.get_shell_msg(timeout=120)
        heard = bool(output.poll(1000))
    while output.poll(500):
        output.recv_multipart()


def wait_for(client: Any, asked: str, mark: bytes) -> None:
    """Wait for a message about a cell that has this in it.

    Nothing is parsed: a display would need room several times.
    """
    parent = b'"' + asked.encode() + b'"'
    text = b""
    while parent not in text or mark not in text:
        frames = client.iopub_channel.socket.recv_multipart(copy=False)
        large = any(len(frame) > 1 << 20 for frame in frames)
        text = b"" if large else b"".join(frame.bytes for frame in frames)


def until_idle(client: Any, asked: str) -> None:
    """Wait for the end of a cell."""
    wait_for(client, asked, b'"idle"')
    client.get_shell_msg(timeout=120)


def cell_ms(client: Any, code: str) -> float:
    """From the request to idle and reply."""
    started = time.monotonic()
    until_idle(client, client.execute(code, store_history=False))
    return 1000 * (time.monotonic() - started)


def interrupt_ms(client: Any) -> float:
    """From the request to interrupt a sleeping cell to the end of that cell."""
    asked = client.execute(SLEEP, store_history=False)
    wait_for(client, asked, b'"stream"')
    time.sleep(ASLEEP_S)
    started = time.monotonic()
    client.control_channel.send(client.session.msg("interrupt_request", {}))
    until_idle(client, asked)
    return 1000 * (time.monotonic() - started)


def main(cells: int, displays: int, interrupts: int) -> None:
    """Start a kernel, measure, print, end it."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "c.json")
        write_connection_file(path, transport="ipc", ip=f"{folder}/k", key=b"")
        argv = [sys.executable, "-P", "-m", "ipykernel_launcher", "-f", path]
        kernel = subprocess.Popen(
            argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        client = BlockingKernelClient(connection_file=path)
        client.load_connection_file()
        client.start_channels()
        try:
            wait_until_heard(client)
            for _ in range(WARM_UP):
                cell_ms(client, CELL)
            times = {
                "cell": [cell_ms(client, CELL) for _ in range(cells)],
                "display": [cell_ms(client, DISPLAY) for _ in range(displays)],
                "interrupt": [interrupt_ms(client) for _ in range(interrupts)],
            }
        finally:
            client.stop_channels()
            kernel.kill()
    sys.stdout.write(json.dumps(times))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
