"""The proxy in this process with a fake session behind it, and a stock Jupyter client before it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file
from tests.support.fake_session import FakeSession

from branchpoint_kernel.__main__ import serve
from branchpoint_kernel.relay import Opened, Opening
from branchpoint_kernel.returning import Returning
from branchpoint_kernel.sockets import Connection
from branchpoint_vmruntime.image.progress import Progress

Message = dict[str, Any]
P = ParamSpec("P")
# Of a slow and busy host; nothing that goes well takes it.
PATIENCE_S = 120.0
LONGEST_S = 240.0


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in a loop of its own; one that hangs fails where it waits."""

    async def bounded(*args: P.args, **kwargs: P.kwargs) -> None:
        async with asyncio.timeout(LONGEST_S):
            await test(*args, **kwargs)

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(bounded(*args, **kwargs))

    return run


async def comes_true(condition: Callable[[], object]) -> None:
    """Wait until it is so, for as long as a test may take: nobody tells of it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@dataclass
class Answer:
    """Everything that came of one request."""

    reply: Message
    outputs: list[Message] = field(default_factory=list[Message])

    @property
    def status(self) -> str:
        """The reply's status."""
        return self.reply["content"]["status"]

    @property
    def types(self) -> list[str]:
        """The iopub messages' types, in order, states spelt out."""
        return [
            message["content"].get("execution_state", message["msg_type"])
            for message in self.outputs
        ]

    @property
    def text(self) -> str:
        """What was printed, shown and gone wrong."""
        parts: list[str] = []
        for message in self.outputs:
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    parts.append(content["text"])
                case "display_data" | "execute_result":
                    parts.append(content["data"]["text/plain"] + "\n")
                case "error":
                    parts.append("\n".join(content["traceback"]))
                case _:
                    pass
        return "".join(parts)

    @property
    def record(self) -> Message:
        """The record of the last display that bears one."""
        kind = "application/vnd.branchpoint+json"
        shown = [m["content"]["data"] for m in self.outputs if m["msg_type"] == "display_data"]
        return [data[kind] for data in shown if kind in data][-1]


class Notebook:
    """A front end: sends requests and sorts what comes back by parent."""

    def __init__(self, client: AsyncKernelClient, session: FakeSession) -> None:
        self.client = client
        self.session = session
        self.seen: list[Message] = []
        self.greetings: list[Message] = []

    async def wait_until_ready(self) -> None:
        """Until what the kernel publishes arrives, which the welcome says, and it answers."""
        while "iopub_welcome" not in [message["msg_type"] for message in self.seen]:
            await self.hear()
        await self.answer(self.client.kernel_info())
        self.greetings, self.seen = self.seen, []

    def send(self, code: str, **options: Any) -> str:
        """Send a cell without waiting; its message id."""
        asked: Message = {"allow_stdin": False, **options}
        return self.client.execute(code, **asked)

    async def run(self, code: str, **options: Any) -> Answer:
        """Run a cell to its end."""
        return await self.answer(self.send(code, **options))

    async def answer(self, message_id: str) -> Answer:
        """Everything that comes of a request, up to its reply and its idle."""
        reply = await self.reply(message_id)
        while not (mine := self._outputs(message_id)) or not _idle(mine[-1]):
            await self.hear()
        return Answer(reply, mine)

    async def reply(self, message_id: str, channel: str = "shell") -> Message:
        """The reply to a request; those to others are kept for later."""
        while True:
            for message in self.seen:
                if message["msg_type"].endswith("_reply") and _parent(message) == message_id:
                    return message
            get = getattr(self.client, f"get_{channel}_msg")
            self.seen.append(await get(timeout=PATIENCE_S))

    async def wait_output(self, message_id: str, wanted: str) -> None:
        """Until a cell has printed something."""
        while True:
            texts = [m["content"].get("text", "") for m in self._outputs(message_id)]
            if wanted in "".join(texts):
                return
            await self.hear()

    async def hear(self) -> Message:
        """The next message that is published."""
        self.seen.append(await self.client.get_iopub_msg(timeout=PATIENCE_S))
        return self.seen[-1]

    async def taken_in(self) -> None:
        """Until the kernel has all that was sent so far: it answers control beside a cell."""
        await self.reply(self.control("kernel_info_request"), "control")

    async def listen(self, seconds: float) -> list[Message]:
        """Whatever is still to come within a time."""
        more: list[Message] = []
        until_s = time.monotonic() + seconds
        # Nothing is called off: a message that was just being taken in would be lost.
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                more.append(await self.client.get_iopub_msg(timeout=left_s))
            except Empty:
                break
        self.seen += more
        return more

    def control(self, message_type: str, content: Message | None = None) -> str:
        """A request on control; its message id."""
        message = self.client.session.msg(message_type, content or {})
        self.client.control_channel.send(message)
        return message["header"]["msg_id"]

    def _outputs(self, message_id: str) -> list[Message]:
        return [
            message
            for message in self.seen
            if _parent(message) == message_id and not message["msg_type"].endswith("_reply")
        ]


def _idle(message: Message) -> bool:
    return message["content"].get("execution_state") == "idle"


def _parent(message: Message) -> str:
    return message["parent_header"].get("msg_id", "")


@asynccontextmanager
async def open_notebook(folder: Path | None = None) -> AsyncGenerator[Notebook]:
    """A notebook on a running proxy, ready for cells; `folder` is what its session keeps things in.

    Without one nothing of an earlier kernel is known.
    """
    session = FakeSession()

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        async with session:
            key = session.record.key
            returning = None if folder is None else Returning(session, folder, key)
            yield Opened(session, "in a machine that is made up", returning)

    async with open_with(opening, session) as notebook:
        # Kernel info is answered before there is a machine; this is not.
        await notebook.run("", silent=True)
        notebook.seen.clear()
        yield notebook


@asynccontextmanager
async def open_with(opening: Opening, session: FakeSession) -> AsyncGenerator[Notebook]:
    """A notebook on a running proxy that opens its session in some way."""
    with TemporaryDirectory(prefix="bp-") as folder:
        path = Path(folder) / "c.json"
        write_connection_file(
            str(path), transport="ipc", ip=f"{folder}/k", key=b"a key", kernel_name="branchpoint"
        )
        proxy = asyncio.create_task(serve(Connection.load(path), opening))
        client = AsyncKernelClient(connection_file=str(path))
        client.load_connection_file()
        client.start_channels()
        try:
            notebook = Notebook(client, session)
            await notebook.wait_until_ready()
            yield notebook
            client.shutdown()
            await asyncio.wait_for(proxy, PATIENCE_S)
        finally:
            client.stop_channels()
            # Of a test that failed nothing is to be left for the next one to find.
            proxy.cancel()
            await asyncio.wait({proxy})
