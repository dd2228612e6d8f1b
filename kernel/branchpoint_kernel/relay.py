"""Carries messages between the front ends' sockets and the open session, start to shutdown."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.messages import Channel, ForeignMessageError, Request, Stamp
from branchpoint_kernel.notebook import Notebook
from branchpoint_kernel.opening_progress import OpeningProgress
from branchpoint_kernel.ours import is_local
from branchpoint_kernel.publisher import Publisher, error_content
from branchpoint_kernel.returning import Returning
from branchpoint_kernel.shell_queue import ShellQueue
from branchpoint_kernel.sockets import FrontEnd
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.session import Session

log = logging.getLogger(__name__)

SUBSCRIBE = 1
TELL_AFTER_S = 3.0
COMING_UP = "The machine is still coming up.\n"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open session, and a line for the banner saying what its machines run under.

    `returning` says what earlier kernels left in it.
    """

    session: Session
    machine: str
    returning: Returning | None = None


Opening = Callable[[Progress], AbstractAsyncContextManager[Opened]]


class Relay:
    """The kernel as front ends see it, from the first moment, with a machine or without."""

    def __init__(self, front_end: FrontEnd, stamp: Stamp, opening: Opening) -> None:
        self._front_end = front_end
        self._stamp = stamp
        self._opening = opening
        self._publisher = Publisher(front_end, stamp)
        self._facts = KernelFacts()
        self._queue = ShellQueue(self._guest_is_free, self._cell_may_run)
        self._notebook: Notebook | None = None
        self._failure: BranchpointError | None = None
        self._returning: Returning | None = None
        # What passes the shell queue by, in order: a machine may have to be resumed first.
        self._beside = asyncio.Queue[Request]()
        self._progress: OpeningProgress | None = None
        self._tells = False
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let `serve` return."""
        self._ending.set()

    async def wait_ending(self) -> None:
        """Until the end has been asked for."""
        await self._ending.wait()

    async def serve(self) -> None:
        """Answer until a shutdown request has been answered, or `end` is called."""
        self._publisher.status("starting")
        self._progress = OpeningProgress()
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(self._read(Channel.SHELL, self._take_shell)),
                tasks.create_task(self._read(Channel.CONTROL, self._take_control)),
                tasks.create_task(self._read(Channel.STDIN, self._take_stdin)),
                tasks.create_task(self._greet_subscribers()),
                tasks.create_task(self._work(self._progress)),
            ]
            await self._ending.wait()
            for task in work:
                task.cancel()

    def _guest_is_free(self) -> bool:
        return self._notebook is None or self._notebook.guest_is_free

    def _cell_may_run(self) -> bool:
        return self._notebook is None or self._notebook.cell_may_run

    async def _work(self, progress: Progress) -> None:
        try:
            async with self._opening(progress) as opened, asyncio.TaskGroup() as tasks:
                self._facts.machine = opened.machine
                self._returning = opened.returning
                notebook = Notebook(
                    opened.session,
                    self._publisher,
                    self._stamp,
                    self._queue,
                    self._facts,
                    tasks,
                    opened.returning,
                )
                await notebook.start()
                self._notebook = notebook
                if self._state() == "idle":
                    # A cell that waits tells of being busy itself, as its own.
                    self._publisher.status("idle")
                tasks.create_task(self._serve_beside(notebook))
                tasks.create_task(notebook.watch())
                await notebook.serve_queue()
        except* Exception as group:
            await self._serve_without_machine(_in_words(group))

    async def _serve_without_machine(self, failure: BranchpointError) -> None:
        log.warning("there is no machine: %s", failure)
        self._notebook = None
        self._failure = failure
        self._facts.machine = f"without a machine: {failure}"
        self._publisher.status(self._state())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._refuse_beside(failure))
            while True:
                queued = await self._queue.take()
                self._refuse(queued.request, failure)

    async def _serve_beside(self, notebook: Notebook) -> None:
        while True:
            await notebook.forward(await self._beside.get())

    async def _refuse_beside(self, failure: BranchpointError) -> None:
        while True:
            self._refuse(await self._beside.get(), failure)

    async def _read(self, channel: Channel, take: Callable[[Request], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as answering:
            while True:
                frames = await self._front_end.receive(channel)
                try:
                    request = self._stamp.read(channel, frames)
                    local = channel is Channel.SHELL and is_local(request)
                    tells = self._is_first_to_wait(request)
                except (ForeignMessageError, ValueError, KeyError, TypeError) as error:
                    log.warning("dropped a message on %s: %s", channel, error)
                    continue
                if tells:
                    answering.create_task(self._tell_if_slow(request))
                if request.type == "interrupt_request":
                    # It can take seconds with a silent guest, and control must stay open.
                    answering.create_task(self._interrupt(request))
                elif local:
                    self._take_local(request)
                else:
                    await take(request)

    async def _greet_subscribers(self) -> None:
        while True:
            frame = (await self._front_end.receive(Channel.IOPUB))[0]
            if frame and frame[0] == SUBSCRIBE:
                self._publisher.welcome(frame[1:])
                # A server that has restarted a kernel believes the last state it was told.
                self._publisher.status(self._state())

    def _state(self) -> str:
        if self._is_coming_up:
            return "starting"
        return "idle" if self._queue.empty and self._guest_is_free() else "busy"

    def _is_first_to_wait(self, request: Request) -> bool:
        if not self._is_coming_up or self._tells or request.type != "execute_request":
            return False
        self._tells = not request.message.read().get("silent", False)
        return self._tells

    async def _tell_if_slow(self, request: Request) -> None:
        await asyncio.sleep(TELL_AFTER_S)
        if not self._is_coming_up or self._progress is None:
            return
        header = request.message.header
        self._publisher.status("busy", header)
        self._say(COMING_UP, header)
        async for step in self._progress.steps():
            if not self._is_coming_up:
                return
            self._say(f"  {step} ...\n", header)

    @property
    def _is_coming_up(self) -> bool:
        return self._notebook is None and self._failure is None

    def _say(self, text: str, header: bytes) -> None:
        self._publisher.publish("stream", {"name": "stderr", "text": text}, header)

    def _take_local(self, request: Request) -> None:
        # A server asks for kernel_info whenever a page is opened, also while a machine comes up.
        idle = self._notebook is None or (self._queue.empty and self._guest_is_free())
        if request.type == "kernel_info_request" and idle:
            self._publisher.answer(request, self._facts.content())
        else:
            self._queue.put(request, local=True)

    async def _take_shell(self, request: Request) -> None:
        if request.type == "shutdown_request":
            self._shut_down(request)
        elif request.type == "connect_request":
            # The guest's kernel would tell of sockets that are inside.
            self._publisher.answer(request, {"status": "ok", **self._front_end.ports})
        elif request.subshell is not None and self._notebook is not None:
            self._beside.put_nowait(request)
        else:
            self._queue.put(request, local=False)

    async def _take_control(self, request: Request) -> None:
        match request.type:
            case "kernel_info_request":
                self._publisher.answer(request, self._facts.content())
            case "shutdown_request":
                self._shut_down(request)
            case _:
                self._beside.put_nowait(request)

    async def _take_stdin(self, request: Request) -> None:
        if self._notebook is not None:
            await self._notebook.give_input(request.message)

    async def _interrupt(self, request: Request) -> None:
        with self._publisher.busy(request):
            if self._notebook is not None:
                await self._notebook.interrupt()
            self._publisher.reply(request, {"status": "ok"})

    def _shut_down(self, request: Request) -> None:
        restart = bool(request.message.read().get("restart", False))
        if restart and self._returning is not None:
            self._returning.note_restart()
        content = {"status": "ok", "restart": restart}
        self._publisher.answer(request, content)
        self._publisher.publish("shutdown_reply", content, request.message.header)
        self.end()

    def _refuse(self, request: Request, error: BranchpointError) -> None:
        if request.type == "execute_request":
            with self._publisher.busy(request):
                self._publisher.complain(request, error)
                self._publisher.reply(request, {**error_content(error), "execution_count": 0})
        elif request.type == "kernel_info_request":
            self._publisher.answer(request, self._facts.content())
        else:
            self._publisher.answer(request, error_content(error))


def _in_words(group: BaseExceptionGroup[Exception]) -> BranchpointError:
    """The first of several errors, for the user; the log has them all."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, BranchpointError):
        return first
    log.error("the session came to an unforeseen end", exc_info=group)
    return BranchpointError(
        f"the session came to an unforeseen end: {type(first).__name__}: {first}",
        hint="restart the kernel; its log has the details",
    )
