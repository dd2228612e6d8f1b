"""Keeps front ends' comms, and so their widgets, in step when the kernel behind them changes."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from branchpoint_kernel.conversations import Silent
from branchpoint_kernel.messages import Message, Request, Stamp
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.widget_states import RememberedStates, States, ask_states
from branchpoint_vmruntime.errors import BranchpointError

log = logging.getLogger(__name__)

REMEMBERED_COMMS = 4096
# A kernel that is not in the middle of a cell answers in milliseconds.
LISTING_PATIENCE_S = 1.0
# ipywidgets 8 keeps its live widgets in `_instances`; front ends may show another time's state.
SEND_STATES = """
def _send_states():
    import sys
    module = sys.modules.get("ipywidgets.widgets.widget")
    for widget in list(getattr(module, "_instances", {}).values()):
        if widget.comm is not None:
            widget.send_state()
_send_states()
del _send_states
"""


class _Restating(Silent):
    """Widgets being told to say their state: that alone is passed on."""

    occupies = True

    def __init__(self, publisher: Publisher) -> None:
        super().__init__()
        self._publisher = publisher

    def take(self, message: Message) -> None:
        super().take(message)
        if message.type == "comm_msg":
            self._publisher.forward(message)


class Comms:
    """Which comms front ends hold, and how each was opened."""

    def __init__(self, publisher: Publisher, stamp: Stamp) -> None:
        self._publisher = publisher
        self._stamp = stamp
        self._held: set[str] = set()
        self._openings: dict[str, Message] = {}
        self._targets: dict[str, str] = {}
        self._remembered = RememberedStates()
        self._followed: Pump | None = None
        publisher.on_forward = self._note

    def note_request(self, request: Request) -> None:
        """A front end opens or closes one."""
        self._note(request.message, opened_here=False)

    def listing(self, target: str | None = None) -> dict[str, Any]:
        """What a `comm_info_reply` tells of those held: of one target, or of all."""
        known = {comm_id: self._targets.get(comm_id, "") for comm_id in self._held}
        return {it: {"target_name": name} for it, name in known.items() if target in (None, name)}

    async def listing_of(self, pump: Pump | None, target: str | None) -> dict[str, Any]:
        """What a kernel tells of its comms; what is known of them if it has none, or is busy."""
        if pump is not None and not pump.occupied:
            asked = {} if target is None else {"target_name": target}
            question = Silent()
            with suppress(BranchpointError, TimeoutError):
                async with asyncio.timeout(LISTING_PATIENCE_S):
                    await pump.ask(self._stamp.request("comm_info_request", asked), question)
                    return dict((await question.reply).get("comms", {}))
        return self.listing(target)

    async def states_of(self, pump: Pump | None) -> States:
        """The states of a kernel's widgets; as they were told of last if it is busy or gone."""
        if pump is not None and not pump.occupied:
            with suppress(BranchpointError):
                states = await ask_states(pump, self._stamp)
                if states is not None:
                    return states
        return self._remembered.states()

    async def follow(self, pump: Pump, header: bytes, language: str) -> None:
        """The kernel is another now: close what it lacks, open what it has, restate the rest.

        What is said goes under `header`. Only widgets of Python can be told to say their state.
        """
        self._followed = pump
        if not self._held and not self._openings:
            return
        pump.asides.begin_under(header)
        question = Silent()
        await pump.ask(self._stamp.request("comm_info_request", {}), question)
        there = set((await question.reply).get("comms", {}))
        if self._followed is not pump:
            # It has taken so long that front ends are with another by now.
            return
        for comm_id in self._held - there:
            content = {"comm_id": comm_id, "data": {}}
            self._publisher.publish("comm_close", content, header)
        for comm_id in self._openings.keys() & (there - self._held):
            self._publisher.forward(self._openings[comm_id])
        self._held = there
        self._remembered.keep(there)
        if language != "python":
            return
        content: dict[str, Any] = {"code": SEND_STATES, "silent": True, "store_history": False}
        message = self._stamp.request("execute_request", content)
        await pump.ask(message, _Restating(self._publisher))

    def _note(self, message: Message, *, opened_here: bool = True) -> None:
        if message.type not in ("comm_open", "comm_msg", "comm_close"):
            return
        try:
            self._keep(message, opened_here=opened_here)
        except Exception as error:
            # Whoever it is for may make sense of it: it is passed on all the same.
            log.warning("a %s is not as comms have it: %s", message.type, error)

    def _keep(self, message: Message, *, opened_here: bool) -> None:
        self._remembered.note(message)
        if message.type == "comm_open":
            opened = message.read()
            comm_id = str(opened["comm_id"])
            self._held.add(comm_id)
            self._targets[comm_id] = str(opened.get("target_name", ""))
            if opened_here:
                self._openings[comm_id] = message
                if len(self._openings) > REMEMBERED_COMMS:
                    del self._openings[next(iter(self._openings))]
            if len(self._targets) > REMEMBERED_COMMS:
                del self._targets[next(iter(self._targets))]
        elif message.type == "comm_close":
            self._held.discard(str(message.read()["comm_id"]))
