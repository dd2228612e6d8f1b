"""Finds for each woken kernel who is told what it carries on with."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from branchpoint_kernel.carrying import (
    Asker,
    Astray,
    Held,
    Lingering,
    asker_of,
    conclude,
    show,
)
from branchpoint_kernel.columns import Column
from branchpoint_kernel.conversations import Conversation, Forwarded, Part
from branchpoint_kernel.fanout import Collecting
from branchpoint_kernel.fork_display import ForkDisplay
from branchpoint_kernel.messages import EMPTY, Message, Request
from branchpoint_kernel.mistakes import beside
from branchpoint_kernel.operations import Done
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError

# How long a cell that forked waits after its own end for what its forks print.
LINGER_S = 3.0
NO_QUESTIONS = "a fork has nobody who could answer"


class Handover:
    """Settles what woken kernels carry on with: on a cell, beside it, or on nobody."""

    def __init__(
        self,
        pumps: Pumps,
        publisher: Publisher,
        tasks: asyncio.TaskGroup,
        on_stray: Callable[[Pump, Message], None],
        foreground: Callable[[], bytes | None],
    ) -> None:
        self._pumps = pumps
        self._publisher = publisher
        self._tasks = tasks
        self._on_stray = on_stray
        self._foreground = foreground
        self._displays: dict[str, ForkDisplay] = {}

    async def to_cell(self, request: Request, done: Done) -> dict[str, Any]:
        """Let a cell of ours have what the kernels it woke carry on with; the reply's content."""
        part: Part | None = None
        forks: list[Pump] = []
        for pump in self._carrying(done.woken):
            if self._pumps.is_current(pump):
                part = Part(request, self._publisher)
                pump.settle(asker_of(part, request))
            else:
                forks.append(pump)
        display = self._new_display(request.message.header, forks) if forks else None
        reply: dict[str, Any] = {"status": "ok"} if part is None else await part.reply
        if display is not None:
            await _linger(display)
        return reply

    def to_nobody(self) -> None:
        """Let what woken kernels carry on with go astray, where no cell has asked for it."""
        for pump in self._pumps:
            if pump.carried is not None and pump.carried.asker is None:
                pump.settle(self._nobody(pump))

    def hold(self, pump: Pump) -> Held | None:
        """Keep the cell that runs there from failing while its machine may be replaced."""
        running, asker = pump.running, pump.asker()
        if running is None or asker is None:
            return None
        held = Held(running, asker)
        pump.replace(running, held)
        return held

    def let_go(self, pump: Pump, held: Held | None) -> None:
        """The machine is what it was, or has ended by itself."""
        if held is None:
            return
        pump.replace(held, held.inner)
        if held.failure is not None:
            held.inner.fail(held.failure)
            self._pumps.look_again()

    def pass_on(self, left: Pump, held: Held | None, done: Done) -> None:
        """The machine a call came from was replaced: its cell gets what is carried on instead.

        The cell ends at once if nothing is.
        """
        asker = None if held is None or held.asker.conversation.over else held.asker
        if asker is not None:
            show(asker, dict(done.shown))
        carrying = next(iter(self._carrying((left.branch,))), None)
        if carrying is not None:
            carrying.settle(asker or self._nobody(carrying))
        elif asker is not None:
            conclude(asker, self._count(left))
        self._pumps.look_again()

    def show_forks(self, pump: Pump, done: Done) -> None:
        """A cell forked from inside: show what its forks print in it, and let it wait for them."""
        forks = self._carrying(done.woken)
        if not forks:
            return
        asker = pump.asker()
        header = EMPTY if asker is None else asker.header or EMPTY
        display = self._displays.get(pump.channel.incarnation)
        if display is None or display.header != header:
            display = self._new_display(header, forks)
            self._displays[pump.channel.incarnation] = display
        else:
            self._add(display, forks)
        if asker is None:
            display.leave_to_background()
        elif isinstance(asker.conversation, Forwarded | Part):
            self._let_linger(pump, display)

    def collect(self, branch: Branch) -> tuple[Column, Collecting] | None:
        """Take what a woken kernel carries on with into a column that nobody is shown."""
        pump = next(iter(self._carrying((branch,))), None)
        if pump is None:
            return None
        column = Column(branch.name)
        collecting = Collecting(column, lambda message: None)
        collecting.executes = False
        pump.settle(Asker(collecting, None, NO_QUESTIONS))
        return column, collecting

    def _carrying(self, woken: tuple[Branch, ...]) -> list[Pump]:
        pumps: list[Pump] = []
        for branch in woken:
            try:
                pump = self._pumps.of(branch)
            except BranchpointError:
                continue
            if pump.carried is not None and pump.carried.asker is None:
                pumps.append(pump)
        return pumps

    def _nobody(self, pump: Pump) -> Asker:
        astray = Astray(lambda message: self._on_stray(pump, message))
        return Asker(astray, None, "no cell asked for it")

    def _count(self, left: Pump) -> int:
        try:
            return self._pumps.of(left.branch).execution_count
        except BranchpointError:
            return left.execution_count

    def _new_display(self, header: bytes, forks: list[Pump]) -> ForkDisplay:
        live = {pump.channel.incarnation for pump in self._pumps}
        self._displays = {key: each for key, each in self._displays.items() if key in live}
        display = ForkDisplay(self._publisher, header, self._foreground)
        self._add(display, forks)
        return display

    def _add(self, display: ForkDisplay, forks: list[Pump]) -> None:
        for pump in forks:
            self._displays[pump.channel.incarnation] = display
            side = Column(pump.branch.name)
            collecting = self._collecting(display, pump, side)
            display.add(side, collecting)
            pump.settle(Asker(collecting, display.header, NO_QUESTIONS))
        if not display.followed:
            display.show()
            beside(self._tasks, display.keep_up(), "the display of forks")

    def _collecting(self, display: ForkDisplay, pump: Pump, side: Column) -> Collecting:
        def pass_on(comm: Message) -> None:
            if self._pumps.is_current(pump):
                self._publisher.forward(comm)

        def note(message: Message) -> None:
            display.note_change()
            if display.in_background:
                pump.keep_unseen(message)

        return Collecting(side, pass_on, note)

    def _let_linger(self, pump: Pump, display: ForkDisplay) -> None:
        async def release(lingering: Lingering) -> None:
            await _linger(display)
            lingering.release()
            pump.note_change()

        def wrapper(inner: Conversation) -> Conversation:
            def on_reply() -> None:
                beside(self._tasks, release(lingering), "the end of a cell that forked")

            lingering = Lingering(inner, on_reply)
            return lingering

        pump.wrap_running(wrapper)


async def _linger(display: ForkDisplay) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await display.done.wait()
    display.leave_to_background()
