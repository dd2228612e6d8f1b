"""Cells in whose middle a checkpoint is taken, and what a woken kernel would say of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from tests.support.fake_branch import FakeBranch
from tests.support.front_end import Notebook

from branchpoint_kernel.messages import Channel, made
from branchpoint_vmruntime.lineage import Checkpoint


@dataclass(frozen=True)
class Running:
    """A cell that runs until `end` is called."""

    id: str
    code: str
    gate: Path

    def end(self) -> None:
        """Let it come to its end."""
        self.gate.rmdir()


async def hold(notebook: Notebook, *, then: str = "", **options: Any) -> Running:
    """Send a cell that does nothing but wait, and something `then`; wait until it runs."""
    gate = notebook.session.current.kernel.guest.folder / f"gate-{token_hex(4)}"
    gate.mkdir()
    code = f"import os, time; print('on')\nwhile os.path.exists({str(gate)!r}): time.sleep(.02)"
    code += f"\n{then}" if then else ""
    sent = notebook.send(code, **options)
    await notebook.wait_output(sent, "on")
    return Running(sent, code, gate)


@asynccontextmanager
async def saving_by_itself(notebook: Notebook) -> AsyncGenerator[None]:
    """Run a cell after which its branch is saved by itself, for as long as this lasts."""
    session, begun, end = notebook.session, asyncio.Event(), asyncio.Event()
    save = session.checkpoint

    async def checkpoint(*args: Any, **kwargs: Any) -> Checkpoint:
        begun.set()
        await end.wait()
        return await save(*args, **kwargs)

    session.checkpoint = checkpoint
    await notebook.run("1")
    await begun.wait()
    try:
        yield
    finally:
        end.set()


async def start(notebook: Notebook) -> Running:
    """Send such a cell, and wait until it runs; what is saved meanwhile is no variable."""
    notebook.session.keeps_variables = False
    return await hold(notebook)


class CarryingKernel:
    """Speaks for the kernel of a branch about the request of that id."""

    def __init__(self, branch: FakeBranch, request_id: str) -> None:
        self._inbox = branch.kernel.guest.inbox
        self._parent = json.dumps({"msg_id": request_id, "msg_type": "execute_request"}).encode()

    def say(self, channel: Channel, kind: str, content: Mapping[str, Any]) -> None:
        """One message."""
        self._inbox.put_nowait(made(channel, kind, content, parent=self._parent).parts)

    def write(self, text: str) -> None:
        """Print something."""
        self.say(Channel.IOPUB, "stream", {"name": "stdout", "text": text})

    def ask(self, prompt: str) -> None:
        """Wait for a person's answer."""
        self.say(Channel.STDIN, "input_request", {"prompt": prompt, "password": False})

    def end(self, *, error: str = "", count: int = 7) -> None:
        """Come to the end of the cell, well or with an error of that name."""
        reply: dict[str, Any] = {"status": "ok", "execution_count": count}
        if error:
            said = {"ename": error, "evalue": "", "traceback": [f"{error}: it was so"]}
            self.say(Channel.IOPUB, "error", said)
            reply = {"status": "error", "execution_count": count, **said}
        self.say(Channel.SHELL, "execute_reply", reply)
        self.say(Channel.IOPUB, "status", {"execution_state": "idle"})
