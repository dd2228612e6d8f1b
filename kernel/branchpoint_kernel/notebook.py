"""An open session as the shell queue sees it: requests to the guest, cells and questions to us."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from branchpoint_kernel import assist
from branchpoint_kernel.asked import Looks, asked_of
from branchpoint_kernel.autocheckpoint import AutoCheckpoint
from branchpoint_kernel.awakening import Awakening
from branchpoint_kernel.bundles import Bundle, resumption
from branchpoint_kernel.calls import Calls
from branchpoint_kernel.comms import Comms
from branchpoint_kernel.conversations import Forwarded, Silent
from branchpoint_kernel.diff import Differences
from branchpoint_kernel.dormant import Dormant
from branchpoint_kernel.exploring import Exploring
from branchpoint_kernel.fanout import Fanout
from branchpoint_kernel.following import Following
from branchpoint_kernel.giving_back import first_question
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.hints import hint_for
from branchpoint_kernel.history import History
from branchpoint_kernel.interrupts import Interrupts
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.lineage_host import LineageHost
from branchpoint_kernel.messages import EMPTY, Channel, Message, Request, Stamp, with_content
from branchpoint_kernel.mistakes import beside, told_of
from branchpoint_kernel.operations import Operations
from branchpoint_kernel.ours import is_our_cell
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.questions import Questions
from branchpoint_kernel.returning import Returning
from branchpoint_kernel.running import CellRunner
from branchpoint_kernel.shell_queue import Queued, ShellQueue
from branchpoint_kernel.turns import Turns
from branchpoint_kernel.under_way import Busyness
from branchpoint_kernel.vigil import Vigil
from branchpoint_kernel.visits import Visits
from branchpoint_vmruntime.errors import BranchpointError, BudgetError
from branchpoint_vmruntime.lineage import Cell, Moment
from branchpoint_vmruntime.session import Session


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
        returning: Returning | None = None,
    ) -> None:
        self._session = session
        self._publisher = publisher
        self._stamp = stamp
        self._queue = queue
        self._facts = facts
        self._tasks = tasks
        self._asker: Pump | None = None
        self._served: Request | None = None
        self._forwarded_cell = EMPTY
        self._looks = Looks()
        turns = Turns(self._looks.give_way)
        self._pumps = Pumps(session, tasks, self, turns.wait_settled)
        self._history = History(session)
        self._auto = AutoCheckpoint(self._save_by_itself, self._warn, self.on_change)
        differences = Differences(session, self._history)
        operations = Operations(
            session, self._pumps, queue.doom, differences, self._auto, Path.cwd(), turns
        )
        self._operations = operations
        self._awakening = Awakening(session, self._pumps, turns)
        self._returning = returning
        self._fanout = fanout = Fanout(session, self._pumps, publisher, stamp, self._awakening)
        handover = Handover(self._pumps, publisher, tasks, self.on_stray, self._foreground)
        exploring = Exploring(session, self._pumps, handover, stamp)
        self._comms = Comms(publisher, stamp)
        self._following = following = Following(
            self._comms, self._pumps, facts, tasks, self._last_foreground
        )
        self._calls = Calls(session, operations, handover, exploring, following, tasks)
        self._dormant = Dormant(self._comms)
        self._questions = Questions(publisher)
        self.lineage = LineageHost(
            session,
            publisher,
            self._comms,
            following.current,
            tasks,
            lambda: self.shown_busy,
            returning,
        )
        self._runner = CellRunner(
            publisher,
            self._pumps,
            operations,
            fanout,
            handover,
            following,
            facts,
            self._cell_failed,
            self._questions,
            session.outside.stopping.require,
            self._bring_up,
            self.lineage,
        )
        self._visits = Visits(session, turns, self._pumps, handover, following, queue)
        self._busyness = Busyness(session, self._pumps, returning and returning.folder)
        self._vigil = Vigil(self._pumps, queue, operations)
        self._interrupts = Interrupts(
            session, self._pumps, self._runner.interrupt, self._vigil, stamp, tasks, self._warn
        )

    @property
    def guest_is_free(self) -> bool:
        """Whether nothing is open that our magics must wait for."""
        return not self._auto.pending and not any(pump.holds_queue for pump in self._pumps)

    @property
    def shown_busy(self) -> bool:
        """Whether front ends have been told of busy and are still to be told of idle."""
        return not self._queue.empty or any(pump.holds_queue for pump in self._pumps)

    @property
    def cell_may_run(self) -> bool:
        """Whether the current kernel is not in the middle of a cell, nor is saved after one."""
        return not self._auto.pending and not self._operations.under_way and self._is_idle()

    def make_way(self) -> None:
        """What is first in the queue has to wait: not for somebody's look, where no cell runs."""
        if self._is_idle():
            self._looks.give_way()

    async def start(self) -> None:
        """Take on the live kernels and learn what the current one is."""
        self._session.witness = self._witness
        self._session.turn = self._visits.turn
        self._session.on_resumed = self._awakening.note
        self._session.ran, self._session.undone = self._history.done, self._history.undone
        self._others_execute, self._session.executes = self._session.executes, self._executes
        self._session.outside.stopping.on_stop = self._interrupts.stop
        answers = self._session.answers
        answers.update(asked_of(self._looks, self._operations, answers))
        self._pumps.adopt()
        question = Silent()
        pump = self._pumps.current
        await pump.ask(first_question(self._stamp, pump), question)
        self._facts.learn(await question.reply)
        self._tasks.create_task(self._auto.serve(self._is_free), name="autocheckpoint")
        self._tasks.create_task(self.lineage.serve(), name="lineage")

    async def serve_queue(self) -> None:
        """Answer shell requests in their order, for ever."""
        while True:
            queued = await self._queue.take()
            self._served = queued.request
            try:
                await self._serve(queued)
            except Exception as error:
                # One request that we mishandle must not take the session and its machines along.
                told = told_of(error, f"a {queued.request.type}")
                self._publisher.refuse(queued.request, told, self._pumps.count)
            self._served = None

    def give_up(self, error: BranchpointError) -> None:
        """The session has come to an end, its tasks too: say so to everyone who waits."""
        if self._served is not None:
            self._publisher.refuse(self._served, error)
        for pump in self._pumps:
            pump.end(error)

    async def _serve(self, queued: Queued) -> None:
        if queued.doomed:
            self._publisher.answer(queued.request, {"status": "aborted"})
        elif queued.local and not self._is_left_to_guest(queued.request):
            await self._answer(queued.request)
        elif queued.request.type == "execute_request" and self._may_run_no_more():
            await self._runner.run(queued.request, self._said_first(queued.request))
        else:
            await self.forward(queued.request)

    def _is_left_to_guest(self, request: Request) -> bool:
        if request.type != "execute_request":
            return False
        return not is_our_cell(request, self._facts.language)

    def _may_run_no_more(self) -> bool:
        try:
            self._session.outside.stopping.require(self._session.current.name)
        except BudgetError:
            return True
        return False

    async def forward(self, request: Request) -> None:
        """Send a request to the current branch's kernel, which is resumed for it if need be."""
        if self.lineage.takes(request):
            self.lineage.take(request)
            return
        if self._awakening.is_current_away and (known := self._dormant.answer(request)) is not None:
            self._publisher.answer(request, known)
            return
        self._comms.note_request(request)
        self._dormant.note_request(request)
        shown: list[Bundle] = []
        conversation = Forwarded(
            request,
            self._publisher,
            on_cell_error=self._cell_failed,
            hint=hint_for(request),
            preface=lambda: self._show(request, shown),
            on_reply=self._dormant.note_reply,
        )
        message = request.message
        if conversation.occupies:
            self._forwarded_cell = message.header
        if conversation.occupies and b"stop_on_error" in message.content:
            # What waits is dropped here; the kernel would drop what was sent since.
            message = with_content(message, {**message.read(), "stop_on_error": False})
        try:
            if conversation.occupies:
                shown += self._said_first(request)
            shown += await self._bring_up()
            await self._pumps.current.ask(message, conversation)
        except Exception as error:
            conversation.fail(told_of(error, f"a {request.type}"))

    async def _bring_up(self) -> list[Bundle]:
        """See to it that the current branch has its machine; what a cell shows of that."""
        resumed = await self._awakening.need()
        return [] if resumed is None else [resumption(self._session, resumed)]

    def _said_first(self, request: Request) -> list[Bundle]:
        """What the first cell of a kernel is told, or of one that was moved from outside."""
        if request.message.read().get("silent", False):
            return []
        return [*([] if self._returning is None else self._returning.say()), *self._visits.say()]

    def _show(self, request: Request, shown: Sequence[Bundle]) -> None:
        if request.type == "execute_request" and not request.message.read().get("silent", False):
            for bundle in shown:
                self._publisher.display(request, bundle)

    def _executes(self, branch: str) -> bool:
        """Implements what a session asks before it pauses a branch."""
        if self._others_execute(branch) or self._fanout.wants(branch):
            return True
        if any(it.at_a_cell or it.holds_queue for it in self._pumps.of_name(branch)):
            return True
        ours = self._runner.request is not None and self._session.current.name == branch
        return ours and not self._operations.pauses_itself

    async def watch(self) -> None:
        """Say so when a guest answers nothing, for ever."""
        await self._vigil.watch()

    async def interrupt(self) -> None:
        """Interrupt whatever runs, or the current kernel if nothing does."""
        await self._interrupts.interrupt()

    async def give_input(self, message: Message) -> None:
        """The user's answer, to us if we have asked, else to the kernel that asked last."""
        if self._questions.take(message):
            return
        if self._asker is not None:
            with suppress(BranchpointError):
                await self._asker.tell(message)

    async def _answer(self, request: Request) -> None:
        match request.type:
            case "execute_request":
                asyncio.get_running_loop().call_soon(self._busyness.look)
                await self._runner.run(request, self._said_first(request))
                self.on_change()
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
        self._questions.note_other()

    def on_answer(self, pump: Pump, message: Message) -> None:
        """A question that nobody can answer."""
        where = f"the answer to a question in branch {pump.branch.name}"
        beside(self._tasks, pump.tell(message), where)

    def on_cell(self, pump: Pump, cell: Cell) -> None:
        """It belongs to the history of its branch."""
        asked = self._runner.cell if self._pumps.is_current(pump) else None
        if asked is not None and asked.id == cell.id and cell.source in asked.source:
            # The kernel was given a piece of a cell with magics in it; what counts is the cell.
            cell = replace(cell, source=asked.source)
        self._history.note_cell(pump.branch.name, cell)
        self._session.changes.note()
        if self._pumps.is_current(pump):
            request = self._runner.request
            header = self._forwarded_cell if request is None else request.message.header
            self._auto.after_cell(pump.branch.name, header)

    def on_awake(self, pump: Pump) -> None:
        """Code in its machine may ask for things."""
        self._dormant.forget()
        self._calls.follow(pump)

    def on_change(self) -> None:
        """The guest may have become free, or busy."""
        self._busyness.look()
        self._auto.look_again()
        self._queue.look_again()

    def _is_idle(self) -> bool:
        """Whether no cell runs, ours or the current kernel's."""
        pump = self._following.current()
        return self._runner.request is None and (pump is None or not pump.occupied)

    def _is_free(self, branch: str) -> bool:
        """Whether no cell runs, ours or that branch's."""
        there = self._pumps.of_name(branch)
        return self._runner.request is None and not any(pump.occupied for pump in there)

    async def _save_by_itself(self, branch: str) -> None:
        await self._operations.save_by_itself(branch)

    def _warn(self, header: bytes, text: str) -> None:
        self._publisher.publish("stream", {"name": "stderr", "text": text}, header)

    async def _witness(self, branch: str) -> Moment:
        """What is executing on a branch whose machine is at rest."""
        pump = self._pumps.of(self._session.branch(branch))
        await pump.settled()
        running = pump.open.execution
        asking = self._runner.cell if self._pumps.is_current(pump) else None
        cell = asking if running is None else running.cell
        return self._history.moment(branch, cell=cell, open=pump.open.listing())

    def _foreground(self) -> bytes | None:
        """The header of the cell that runs now, ours or the current kernel's."""
        if self._runner.request is not None:
            return self._runner.request.message.header
        try:
            asker = self._pumps.current.asker()
        except BranchpointError:
            return None
        return None if asker is None else asker.header

    def _last_foreground(self) -> bytes:
        return self._foreground() or self._forwarded_cell

    def _cell_failed(self) -> None:
        self._queue.doom()
