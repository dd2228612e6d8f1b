"""An open session as the shell queue sees it: requests to the guest, cells and questions to us."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from branchpoint_kernel import assist
from branchpoint_kernel.cells import mentions_a_magic, near_miss, split
from branchpoint_kernel.comms import Comms
from branchpoint_kernel.conversations import Deaf, Forwarded, Silent
from branchpoint_kernel.fanout import Fanout
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.messages import Channel, Message, Request, Stamp
from branchpoint_kernel.operations import Operations
from branchpoint_kernel.publisher import Publisher, error_content
from branchpoint_kernel.pumps import Pump, Pumps
from branchpoint_kernel.running import CellRunner
from branchpoint_kernel.shell_queue import Queued, ShellQueue
from branchpoint_vmruntime.errors import BranchpointError, GuestSilentError, MachineEndedError
from branchpoint_vmruntime.session import Session

log = logging.getLogger(__name__)

WATCH_EVERY_S = 2.0
PING_TIMEOUT_S = 5.0
INTERRUPT_TIMEOUT_S = 5.0
# ipykernel 7.4 sleeps on in an `await` after SIGINT until something wakes its selector; a request
# on the shell does. Twice, because the first may come before the signal has been handled.
NUDGE_AFTER_S = (0.05, 0.3)


def is_local(request: Request) -> bool:
    """Whether the host answers a shell request itself, in its turn."""
    if request.subshell is not None:
        return False
    match request.type:
        case "kernel_info_request":
            return True
        case "execute_request":
            return mentions_a_magic(request.message.content) and _is_our_cell(request)
        case "complete_request":
            asked = request.message.read()
            return assist.is_about_arguments(asked["code"], asked["cursor_pos"])
        case "inspect_request":
            asked = request.message.read()
            return assist.find_spot(asked["code"], asked["cursor_pos"]) is not None
        case _:
            return False


def _is_our_cell(request: Request) -> bool:
    try:
        return split(str(request.message.read()["code"])) is not None
    except BranchpointError:
        return True


class Notebook:
    """One notebook's session while its kernel process lives."""

    def __init__(
        self,
        session: Session,
        publisher: Publisher,
        stamp: Stamp,
        queue: ShellQueue,
        facts: KernelFacts,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._session = session
        self._publisher = publisher
        self._stamp = stamp
        self._queue = queue
        self._facts = facts
        self._tasks = tasks
        self._asker: Pump | None = None
        self._pumps = Pumps(session, tasks, self)
        operations = Operations(session, self._pumps, queue.doom)
        fanout = Fanout(session, self._pumps, publisher, stamp)
        self._comms = Comms(publisher, stamp)
        self._runner = CellRunner(
            publisher, self._pumps, operations, fanout, self._comms, self._cell_failed
        )

    @property
    def guest_is_free(self) -> bool:
        """Whether nothing is open that our magics must wait for."""
        return not any(pump.holds_queue for pump in self._pumps)

    async def start(self) -> None:
        """Take on the live kernels and learn what the current one is."""
        self._pumps.adopt()
        question = Silent()
        await self._pumps.current.ask(self._stamp.request("kernel_info_request", {}), question)
        self._facts.learn(await question.reply)

    async def serve_queue(self) -> None:
        """Answer shell requests in their order, for ever."""
        while True:
            queued = await self._queue.take()
            try:
                await self._serve(queued)
            except Exception as error:
                # One request that we mishandle must not take the session and its machines along.
                log.exception("a %s was not handled", queued.request.type)
                told = BranchpointError(
                    f"the kernel made a mistake: {type(error).__name__}: {error}",
                    hint="the session is unharmed; the kernel's log has the details",
                )
                self._publisher.answer(queued.request, error_content(told))

    async def _serve(self, queued: Queued) -> None:
        if queued.doomed:
            self._publisher.answer(queued.request, {"status": "aborted"})
        elif queued.local:
            await self._answer(queued.request)
        else:
            await self.forward(queued.request)

    async def forward(self, request: Request) -> None:
        """Send a request to the current branch's kernel."""
        self._comms.note_request(request)
        conversation = Forwarded(
            request,
            self._publisher,
            on_cell_error=self._cell_failed,
            hint=self._hint_for(request),
        )
        try:
            await self._pumps.current.ask(request.message, conversation)
        except BranchpointError as error:
            conversation.fail(error)

    async def watch(self) -> None:
        """Free the queue of a guest that answers nothing while one of our magics waits for it."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            if not self._queue.waits_for_guest:
                continue
            for pump in list(self._pumps):
                if pump.holds_queue:
                    await self._check(pump)

    async def interrupt(self) -> None:
        """Interrupt whatever runs, or the current kernel if nothing does."""
        running = [pump for pump in self._pumps if pump.executes]
        pumps = running or [pump for pump in self._pumps if self._pumps.is_current(pump)]
        await asyncio.gather(*(self._interrupt(pump) for pump in pumps))

    async def give_input(self, message: Message) -> None:
        """The user's answer, to the kernel that asked last."""
        if self._asker is not None:
            with suppress(BranchpointError):
                await self._asker.tell(message)

    async def _answer(self, request: Request) -> None:
        match request.type:
            case "execute_request":
                await self._runner.run(request)
            case "complete_request":
                asked = request.message.read()
                content = assist.complete(self._session, asked["code"], asked["cursor_pos"])
                self._publisher.answer(request, content)
            case "inspect_request":
                asked = request.message.read()
                content = assist.inspect(asked["code"], asked["cursor_pos"])
                self._publisher.answer(request, content)
            case _:
                self._publisher.answer(request, self._facts.content())

    async def _check(self, pump: Pump) -> None:
        try:
            await pump.branch.ping(timeout_s=PING_TIMEOUT_S)
        except (GuestSilentError, MachineEndedError) as error:
            pump.give_up(error, lambda conversation: conversation.holds_queue, Deaf())
        except BranchpointError as error:
            log.warning("branch %s could not be pinged: %s", pump.branch.name, error)

    async def _interrupt(self, pump: Pump) -> None:
        try:
            async with asyncio.timeout(INTERRUPT_TIMEOUT_S):
                await pump.branch.interrupt()
        except (BranchpointError, TimeoutError) as error:
            log.warning("branch %s could not be interrupted: %s", pump.branch.name, error)
        self._tasks.create_task(self._nudge(pump))

    async def _nudge(self, pump: Pump) -> None:
        for wait_s in NUDGE_AFTER_S:
            await asyncio.sleep(wait_s)
            await pump.ask(self._stamp.request("kernel_info_request", {}), Silent())

    def on_stray(self, pump: Pump, message: Message) -> None:
        """Such as a thread's output, a comm's message, a debugger's event."""
        if message.channel is not Channel.IOPUB or message.type == "iopub_welcome":
            return
        if message.type == "status" and not message.parent_id:
            return
        if self._pumps.is_current(pump):
            self._publisher.forward(message)
        else:
            pump.keep_unseen(message)

    def on_question(self, pump: Pump) -> None:
        """The next answer is for that kernel."""
        self._asker = pump

    def on_change(self) -> None:
        """The guest may have become free."""
        self._queue.look_again()

    def _cell_failed(self) -> None:
        self._queue.doom()

    def _hint_for(self, request: Request) -> Callable[[str], str | None]:
        if request.type != "execute_request" or b"%" not in request.message.content:
            return lambda text: None
        meant = near_miss(str(request.message.read()["code"]))

        def hint(text: str) -> str | None:
            if meant is None or "magic" not in text or "not found" not in text:
                return None
            marked = MAGICS[meant].marked
            return f"Did you mean {marked}? Type {marked}? to read about it.\n"

        return hint
