"""A kernel as its users have it: started by Jupyter, from the kernelspec, in a real microVM."""

import os
import queue
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from tests.support.ports import free_ports

from branchpoint_kernel.relay import COMING_UP
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.memory.dirty import dirty_runs

KERNEL = "branchpoint"
RECORD = "application/vnd.branchpoint+json"
# Well within what pytest gives a test: whoever waits in vain says for what.
PATIENCE_S = 240.0
_CHANNELS = ("shell", "iopub", "stdin", "hb", "control")
_MEMORY_IMAGE = re.compile(rb"mem-path=([^,]+),")
# What a slow host's first cell is told while its machine comes up; no cell says it by itself.
NEWS = re.compile(re.escape(COMING_UP) + r"|  .* \.\.\.\n")
_HEADING = re.compile(r"── (?P<name>\S+?) · .* ──")


@dataclass
class Cell:
    """What came of running a cell."""

    status: str
    text: str = ""
    error_name: str = ""
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    displays: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    payload: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    first_output_s: float = 0.0
    idle: bool = False

    @property
    def lines(self) -> list[str]:
        """Its text, line by line."""
        return self.text.splitlines()

    @property
    def record(self) -> dict[str, Any]:
        """The record of the one magic in it."""
        (record,) = self.records
        return record

    @property
    def sides(self) -> dict[str, str]:
        """What each branch it ran in has written, as last shown: one display has them all."""
        shown = [display.get("text/plain", "") for display in self.displays]
        return next((found for text in reversed(shown) if (found := sides(text))), dict[str, str]())

    @property
    def over(self) -> bool:
        """Whether it has been replied to and the kernel is done with it."""
        return self.idle and bool(self.status)


class LiveKernel:
    """A started kernel and a client of it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self._cells: dict[str, Cell] = {}

    @property
    def pid(self) -> int:
        """The process that Jupyter started."""
        return int(getattr(self.manager.provisioner, "pid"))  # noqa: B009

    @property
    def processes(self) -> list[int]:
        """The QEMUs it has started that still are there."""
        return [pid for pid in children(self.pid) if is_qemu(pid)]

    @property
    def machines(self) -> list[int]:
        """Those of them that have run; not one that only stands by for what may be wanted next."""
        return [pid for pid in self.processes if has_run(pid)]

    def run(self, code: str, *, expect: str = "ok", cell_id: str = "") -> Cell:
        """Run a cell to its end; a cell that does not end as expected fails the test."""
        cell = self.finish(self.start(code, cell_id=cell_id))
        assert cell.status == expect, f"{code!r} ended with {cell.status}:\n{cell.text}"
        return cell

    def run_until(self, code: str, condition: Callable[[Cell], bool]) -> Cell:
        """Run a cell to its end, and on until it is as wished: its forks may print after that."""
        sent = self.start(code)
        self.wait_for(sent, lambda cell: cell.over and (cell.status != "ok" or condition(cell)))
        cell = self.finish(sent)
        assert cell.status == "ok", f"{code!r} ended with {cell.status}:\n{cell.text}"
        return cell

    def run_all(self, *codes: str) -> list[Cell]:
        """Run cells as "Run All" does: every one is sent before the first has been answered."""
        return [self.finish(sent) for sent in [self.start(code) for code in codes]]

    def value(self, code: str) -> str:
        """What an expression prints, without the line's end."""
        return self.run(f"print({code})").text.strip()

    def in_branches(self, code: str, names: Sequence[str]) -> dict[str, str]:
        """Run a cell in several branches at once; what each printed."""
        cell = self.run(f"%%branch {','.join(names)}\n{code}")
        printed = cell.sides
        assert list(printed) == list(names), cell.text
        return printed

    def values(self, code: str, names: Sequence[str]) -> dict[str, str]:
        """What an expression prints in several branches."""
        return self.in_branches(f"print({code})", names)

    def start(self, code: str, *, allow_stdin: bool = False, cell_id: str = "") -> str:
        """Send a cell without waiting; `cell_id` is its place in a document, if it has one."""
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        metadata = {"cellId": cell_id} if cell_id else {}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        message_id = str(message["header"]["msg_id"])
        self._cells[message_id] = Cell(status="")
        return message_id

    def finish(self, message_id: str, *, patience_s: float = PATIENCE_S) -> Cell:
        """Wait for a cell that was sent."""
        self.wait_for(message_id, lambda cell: cell.over, patience_s=patience_s)
        return self._cells.pop(message_id)

    def wait_for(
        self, message_id: str, condition: Callable[[Cell], bool], *, patience_s: float = PATIENCE_S
    ) -> Cell:
        """Take in messages until a cell that was sent is as wished."""
        cell = self._cells[message_id]
        deadline = time.monotonic() + patience_s
        while not condition(cell):
            assert time.monotonic() < deadline, f"no end within {patience_s:g} s; so far:\n{cell}"
            self._take_in()
        return cell

    def _take_in(self) -> None:
        try:
            self._take_output(self.client.get_iopub_msg(timeout=0.2))
            while True:
                self._take_output(self.client.get_iopub_msg(timeout=0))
        except queue.Empty:
            pass
        try:
            while True:
                self._take_reply(self.client.get_shell_msg(timeout=0))
        except queue.Empty:
            pass

    def _take_output(self, message: dict[str, Any]) -> None:
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if cell is not None:
            _take(cell, message)

    def _take_reply(self, message: dict[str, Any]) -> None:
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if cell is not None:
            cell.status = message["content"]["status"]
            cell.payload = message["content"].get("payload", [])


def _take(cell: Cell, message: dict[str, Any]) -> None:
    content = message["content"]
    match message["msg_type"]:
        case "stream" if not NEWS.fullmatch(content["text"]):
            cell.text += content["text"]
        case "display_data" | "execute_result" | "update_display_data":
            cell.text += content["data"].get("text/plain", "") + "\n"
            cell.displays.append(content["data"])
            if RECORD in content["data"]:
                cell.records.append(content["data"][RECORD])
        case "clear_output":
            cell.text = ""
        case "error":
            cell.error_name = content["ename"]
            cell.text += "\n".join(content["traceback"]) + "\n"
        case "status":
            cell.idle = content["execution_state"] == "idle"
            return
        case _:
            return
    cell.first_output_s = cell.first_output_s or time.time()


def sides(text: str) -> dict[str, str]:
    r"""The sides of a cell that ran in several branches, from its plain text.

    >>> sides("── a · 12 ms ──\n593\n\n── b · 13 ms ──\n594")
    {'a': '593', 'b': '594'}
    """
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            name = heading["name"]
            found[name] = ""
        elif name:
            found[name] = f"{found[name]}\n{line}".strip()
    return found


@contextmanager
def live_kernel(session: str, *, cwd: Path, **environment: str) -> Generator[LiveKernel]:
    """Start a kernel whose session has that key; shut down on leaving, if it still runs."""
    # By itself it kills one that has saved for 5 s.
    manager = KernelManager(kernel_name=KERNEL, cache_ports=False, shutdown_wait_time=PATIENCE_S)
    for channel, port in zip(_CHANNELS, free_ports(len(_CHANNELS)), strict=True):
        setattr(manager, f"{channel}_port", port)
    env = os.environ | {"BRANCHPOINT_SESSION": session} | environment
    manager.start_kernel(env=env, cwd=str(cwd))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield LiveKernel(manager, client)
    finally:
        client.stop_channels()
        if manager.has_kernel:
            manager.shutdown_kernel(now=False)
        manager.cleanup_resources()


def qemu_processes(home: Path) -> list[int]:
    """QEMUs on machines of this home, whoever's children they are."""
    # In QEMU's options a comma is written twice.
    named = os.fsencode(str(home).replace(",", ",,"))
    return [
        pid
        for pid in _processes()
        if b"qemu" in (command := command_line(pid)) and named in command
    ]


def command_line(pid: int) -> bytes:
    """A process's command line, its arguments ended by zeros; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def children(parent: int) -> list[int]:
    """The processes that a process has started and that still are there."""
    return [pid for pid in _processes() if _parent(pid) == parent]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def is_qemu(pid: int) -> bool:
    """Whether it runs QEMU. One that is starting, or has ended, does not."""
    return b"qemu-system" in command_line(pid)


def has_run(pid: int) -> bool:
    """Whether a machine has run, and does not only stand by."""
    image = _MEMORY_IMAGE.search(command_line(pid))
    try:
        return image is not None and bool(dirty_runs(pid, Path(image[1].decode())))
    except MachineError:
        # It is only just starting, or has ended.
        return False


def wait_until(condition: Callable[[], Any], *, timeout_s: float = PATIENCE_S) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
