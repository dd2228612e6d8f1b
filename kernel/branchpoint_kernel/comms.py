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
        publisher.on_forward = self._note

    def note_request(self, request: Request) -> None:
        """A front end opens or closes one."""
        self._note(request.message, opened_here=False)

    async def follow(self, pump: Pump, request: Request, language: str) -> None:
        """The kernel is another now: close what it lacks, open what it has, restate the rest.

        Only widgets of Python can be told to say their state.
        """
        if not self._held and not self._openings:
            return
        pump.asides.begin_under(request.message.header)
        question = Silent()
        await pump.ask(self._stamp.request("comm_info_request", {}), question)
        there = set((await question.reply).get("comms", {}))
        for comm_id in self._held - there:
            content = {"comm_id": comm_id, "data": {}}
            self._publisher.publish("comm_close", content, request.message.header)
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
            comm_id = str(message.read()["comm_id"])
            self._held.add(comm_id)
            if opened_here:
                self._openings[comm_id] = message
                if len(self._openings) > REMEMBERED_COMMS:
                    del self._openings[next(iter(self._openings))]
        elif message.type == "comm_close":
            self._held.discard(str(message.read()["comm_id"]))
