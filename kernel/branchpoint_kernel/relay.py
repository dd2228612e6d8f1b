"""Carries messages between the front ends' sockets and the open session, start to shutdown."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from branchpoint_kernel.giving_back import save_at_end
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.messages import Channel, ForeignMessageError, Request, Stamp
from branchpoint_kernel.mistakes import beside, told_of
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
        self._queue = ShellQueue(self._guest_is_free, self._cell_may_run, self._make_way)
        self._notebook: Notebook | None = None
        self._failure: BranchpointError | None = None
        self._returning: Returning | None = None
        # What passes the shell queue by, in order: a machine may have to be resumed first.
        self._beside = asyncio.Queue[Request]()
        self._progress: OpeningProgress | None = None
        self._tells = False
        self._ending = asyncio.Event()
        self._saved = asyncio.Event()
        self._restarts = False
        self._session: Session | None = None

    def end(self) -> None:
        """Let `serve` return."""
        self._ending.set()

    async def wait_ending(self) -> None:
        """Until the end has been asked for."""
        await self._ending.wait()

    async def wait_saved(self) -> None:
        """Until what is to be saved before the end has been."""
        await self._saved.wait()

    async def serve(self) -> None:
        """Answer until a shutdown request has been answered, or `end` is called."""
        self._publisher.status("starting")
        self._progress = OpeningProgress()
        async with asyncio.TaskGroup() as tasks:
            readers = [
                tasks.create_task(self._read(Channel.SHELL, self._take_shell)),
                tasks.create_task(self._read(Channel.CONTROL, self._take_control)),
                tasks.create_task(self._read(Channel.STDIN, self._take_stdin)),
            ]
            work = [
                tasks.create_task(self._greet_subscribers()),
                tasks.create_task(self._work(self._progress)),
            ]
            await self._ending.wait()
            # Whatever came now would wake what has just been saved.
            for task in readers:
                task.cancel()
            self._queue.doom()
            if self._session is not None and not self._restarts:
                await save_at_end(self._session)
            self._saved.set()
            for task in work:
                task.cancel()

    def _guest_is_free(self) -> bool:
        return self._notebook is None or self._notebook.guest_is_free

    def _cell_may_run(self) -> bool:
        return self._notebook is None or self._notebook.cell_may_run

    def _make_way(self) -> None:
        if self._notebook is not None:
            self._notebook.make_way()

    async def _work(self, progress: Progress) -> None:
        try:
            async with self._opening(progress) as opened:
                await self._serve_session(opened)
        except* Exception as group:
            failure = self._failure or _in_words(group)
            # What goes wrong at the end is logged; there is nobody left to be told.
            if not self._ending.is_set():
                await self._serve_without_machine(failure)

    async def _serve_session(self, opened: Opened) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
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
                self._notebook, self._session = notebook, opened.session
                if self._state() == "idle":
                    # A cell that waits tells of being busy itself, as its own.
                    self._publisher.status("idle")
                tasks.create_task(self._serve_beside(notebook))
                tasks.create_task(notebook.watch())
                await notebook.serve_queue()
        except* Exception as group:
            # Its machines are still to be ended, and nobody is to wait for that.
            self._lose(_in_words(group))
            raise

    def _lose(self, failure: BranchpointError) -> None:
        notebook, self._notebook = self._notebook, None
        self._session, self._failure = None, failure
        if notebook is not None:
            try:
                notebook.give_up(failure)
            except Exception:
                log.exception("not everyone was told of the end of the session")

    async def _serve_without_machine(self, failure: BranchpointError) -> None:
        log.warning("there is no machine: %s", failure)
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
            request = await self._beside.get()
            try:
                await notebook.forward(request)
            except Exception as error:
                self._publisher.refuse(request, told_of(error, f"a {request.type}"))

    async def _refuse_beside(self, failure: BranchpointError) -> None:
        while True:
            self._refuse(await self._beside.get(), failure)

    async def _read(self, channel: Channel, take: Callable[[Request], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as answering:
            while True:
                frames = await self._front_end.receive(channel)
                try:
                    await self._take(self._stamp.read(channel, frames), take, answering)
                except (ForeignMessageError, ValueError, KeyError, TypeError) as error:
                    log.warning("dropped a message on %s: %s", channel, error)
                except Exception:
                    # One that we mishandle must not take the session and its machines along.
                    log.exception("dropped a message on %s", channel)

    async def _take(
        self,
        request: Request,
        take: Callable[[Request], Awaitable[None]],
        answering: asyncio.TaskGroup,
    ) -> None:
        local = request.message.channel is Channel.SHELL and is_local(request)
        if self._is_first_to_wait(request):
            beside(answering, self._tell_if_slow(request), "word of the machine that comes up")
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
        if self._notebook is None:
            return "idle" if self._queue.empty else "busy"
        return "busy" if self._notebook.shown_busy else "idle"

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
        elif self._notebook is not None and self._notebook.lineage.takes(request):
            self._notebook.lineage.take(request)
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
            content: dict[str, Any] = {"status": "ok"}
            try:
                if self._notebook is not None:
                    await self._notebook.interrupt()
            except Exception as error:
                content = error_content(told_of(error, "an interrupt"))
            self._publisher.reply(request, content)

    def _shut_down(self, request: Request) -> None:
        restart = self._restarts = bool(request.message.read().get("restart", False))
        if restart and self._returning is not None:
            self._returning.note_restart()
        content = {"status": "ok", "restart": restart}
        self._publisher.answer(request, content)
        self._publisher.publish("shutdown_reply", content, request.message.header)
        self.end()

    def _refuse(self, request: Request, error: BranchpointError) -> None:
        if request.type == "kernel_info_request":
            self._publisher.answer(request, self._facts.content())
        else:
            self._publisher.refuse(request, error)


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
