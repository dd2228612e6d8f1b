"""A kernel as its users have it: started by Jupyter, from the kernelspec, in a real microVM."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

KERNEL = "branchpoint"
RECORD = "application/vnd.branchpoint+json"
PATIENCE_S = 120.0


@dataclass
class Cell:
    """What came of running a cell."""

    status: str
    text: str = ""
    error_name: str = ""
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    payload: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def lines(self) -> list[str]:
        """Its text, line by line."""
        return self.text.splitlines()


class LiveKernel:
    """A started kernel and a client of it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    @property
    def pid(self) -> int:
        """The process that Jupyter started."""
        return int(getattr(self.manager.provisioner, "pid"))  # noqa: B009

    def run(self, code: str, *, expect: str = "ok") -> Cell:
        """Run a cell to its end; a cell that does not end as expected fails the test."""
        cell = self.finish(self.start(code))
        assert cell.status == expect, f"{code!r} ended with {cell.status}:\n{cell.text}"
        return cell

    def value(self, code: str) -> str:
        """What an expression prints, without the line's end."""
        return self.run(f"print({code})").text.strip()

    def start(self, code: str) -> str:
        """Send a cell without waiting."""
        return self.client.execute(code, allow_stdin=False)

    def finish(self, message_id: str) -> Cell:
        """Wait for a cell that was sent."""
        cell = Cell(status="")
        idle = False
        deadline = time.monotonic() + PATIENCE_S
        while not idle:
            message = self.client.get_iopub_msg(timeout=deadline - time.monotonic())
            if message["parent_header"].get("msg_id") == message_id:
                idle = _take(cell, message)
        while True:
            reply = self.client.get_shell_msg(timeout=PATIENCE_S)
            if reply["parent_header"].get("msg_id") == message_id:
                cell.status = reply["content"]["status"]
                cell.payload = reply["content"].get("payload", [])
                return cell


def _take(cell: Cell, message: dict[str, Any]) -> bool:
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            cell.text += content["text"]
        case "display_data" | "execute_result" | "update_display_data":
            cell.text += content["data"].get("text/plain", "") + "\n"
            if RECORD in content["data"]:
                cell.records.append(content["data"][RECORD])
        case "error":
            cell.error_name = content["ename"]
            cell.text += "\n".join(content["traceback"]) + "\n"
        case "status":
            return content["execution_state"] == "idle"
        case _:
            pass
    return False


@contextmanager
def live_kernel(session: str, *, cwd: Path, **environment: str) -> Generator[LiveKernel]:
    """Start a kernel whose session has that key; shut down on leaving, if it still runs."""
    manager = KernelManager(kernel_name=KERNEL)
    env = os.environ | {"BRANCHPOINT_SESSION": session} | environment
    manager.start_kernel(env=env, cwd=str(cwd))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield LiveKernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
        manager.cleanup_resources()


def qemu_processes(home: Path) -> list[int]:
    """QEMUs on machines of this home, whoever's children they are."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"qemu" in command and str(home).encode() in command:
                found.append(int(folder.name))
    return found


def wait_until(condition: Any, *, timeout_s: float = 30.0) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
