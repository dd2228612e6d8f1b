"""Keeps front ends' comms, and so their widgets, in step when the kernel behind them changes."""

from typing import Any

from branchpoint_kernel.conversations import Silent
from branchpoint_kernel.messages import Message, Request, Stamp
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pumps import Pump

REMEMBERED_COMMS = 4096
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
        publisher.on_forward = self._note

    def note_request(self, request: Request) -> None:
        """A front end opens or closes one."""
        self._note(request.message, opened_here=False)

    def listing(self, target: str | None = None) -> dict[str, Any]:
        """What a `comm_info_reply` tells of those held: of one target, or of all."""
        known = {comm_id: self._targets.get(comm_id, "") for comm_id in self._held}
        return {it: {"target_name": name} for it, name in known.items() if target in (None, name)}

    async def follow(self, pump: Pump, header: bytes, language: str) -> None:
        """The kernel is another now: close what it lacks, open what it has, restate the rest.

        What is said goes under `header`. Only widgets of Python can be told to say their state.
        """
        if not self._held and not self._openings:
            return
        pump.asides.begin_under(header)
        question = Silent()
        await pump.ask(self._stamp.request("comm_info_request", {}), question)
        there = set((await question.reply).get("comms", {}))
        for comm_id in self._held - there:
            content = {"comm_id": comm_id, "data": {}}
            self._publisher.publish("comm_close", content, header)
        for comm_id in self._openings.keys() & (there - self._held):
            self._publisher.forward(self._openings[comm_id])
        self._held = there
        if language != "python":
            return
        content: dict[str, Any] = {"code": SEND_STATES, "silent": True, "store_history": False}
        message = self._stamp.request("execute_request", content)
        await pump.ask(message, _Restating(self._publisher))

    def _note(self, message: Message, *, opened_here: bool = True) -> None:
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
