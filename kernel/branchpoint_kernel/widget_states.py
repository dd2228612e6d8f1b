"""What widgets of the kernel in the machine look like: asked of it, or as it last said.

A page that is loaded anew asks for the states of all widgets at once, at a comm of its own; while
a cell runs a kernel answers nothing of the kind.
"""

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from branchpoint_kernel.conversations import Marker
from branchpoint_kernel.messages import Message, Stamp
from branchpoint_kernel.pump import Pump
from branchpoint_vmruntime.errors import BranchpointError

WIDGETS = "jupyter.widget"
CONTROL = "jupyter.widget.control"
CONTROL_VERSION = "1.0.0"
# JupyterLab's widget manager waits 4 s for the states, and then asks in another way.
PATIENCE_S = 2.0
REMEMBERED_WIDGETS = 4096
LARGEST_REMEMBERED_BYTES = 4_000_000

BufferPath = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class States:
    """As `update_states` carries them: by comm, and what is binary in them apart.

    A path begins with the comm's id, and the buffers are in the paths' order.
    """

    states: Mapping[str, Any] = field(default_factory=dict[str, Any])
    paths: Sequence[BufferPath] = ()
    buffers: Sequence[bytes] = ()

    def beside(self, other: "States") -> "States":
        """These and those, the others after."""
        return States(
            {**self.states, **other.states},
            [*self.paths, *other.paths],
            [*self.buffers, *other.buffers],
        )

    def content(self) -> dict[str, Any]:
        """What the message says."""
        return {
            "method": "update_states",
            "states": dict(self.states),
            "buffer_paths": [list(path) for path in self.paths],
        }


def described(state: Mapping[str, Any]) -> dict[str, Any]:
    """A widget's state with the names of what draws it, as `update_states` has it."""
    names = ("model_name", "model_module", "model_module_version")
    return {**{name: state.get(f"_{name}") for name in names}, "state": dict(state)}


@dataclass
class _Remembered:
    state: dict[str, Any]
    buffers: dict[tuple[str | int, ...], bytes]


class RememberedStates:
    """The states of widgets as they are told of in passing, from either end."""

    def __init__(self) -> None:
        self._widgets: dict[str, _Remembered] = {}

    def note(self, message: Message) -> None:
        """A comm is opened, says something, or is closed."""
        if message.type == "comm_open" and WIDGETS.encode() not in message.content:
            return
        if message.type == "comm_msg" and not self._widgets:
            return
        content = message.read()
        comm_id, data = str(content["comm_id"]), content.get("data")
        # What is no widget's says whatever it likes.
        said: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        large = len(message.content) + sum(map(len, message.buffers)) > LARGEST_REMEMBERED_BYTES
        if message.type == "comm_close" or (large and "state" in said):
            self._widgets.pop(comm_id, None)
        elif message.type == "comm_open" and content.get("target_name") == WIDGETS:
            self._widgets[comm_id] = _Remembered({}, {})
            self._merge(comm_id, said, message.buffers)
            if len(self._widgets) > REMEMBERED_WIDGETS:
                del self._widgets[next(iter(self._widgets))]
        elif message.type == "comm_msg" and said.get("method") in ("update", "echo_update"):
            self._merge(comm_id, said, message.buffers)

    def keep(self, comm_ids: Set[str]) -> None:
        """Those alone are there any more."""
        self._widgets = {it: each for it, each in self._widgets.items() if it in comm_ids}

    def states(self) -> States:
        """All of them."""
        paths: list[BufferPath] = []
        buffers: list[bytes] = []
        for comm_id, each in self._widgets.items():
            paths += [(comm_id, "state", *path) for path in each.buffers]
            buffers += each.buffers.values()
        told = {comm_id: described(each.state) for comm_id, each in self._widgets.items()}
        return States(told, paths, buffers)

    def _merge(self, comm_id: str, data: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        known = self._widgets.get(comm_id)
        if known is None:
            return
        new = data.get("state", {})
        known.state.update(new)
        paths = [tuple(path) for path in data.get("buffer_paths", [])]
        # A trait that is told anew is told whole: its buffers of before are not its any more.
        told = {*new, *(path[0] for path in paths)}
        kept = {path: it for path, it in known.buffers.items() if path[0] not in told}
        known.buffers = {**kept, **dict(zip(paths, buffers, strict=False))}


class _Gathering(Marker):
    """A request for states: the one answer to it that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.told = States()

    def take(self, message: Message) -> None:
        """Keep the states."""
        super().take(message)
        if message.type == "comm_msg":
            data = message.read().get("data", {})
            if data.get("method") == "update_states":
                self.told = States(data["states"], data["buffer_paths"], message.buffers)


async def ask_states(pump: Pump, stamp: Stamp) -> States | None:
    """The states of the widgets in a kernel; none if it has no widgets. None: it has not answered.

    BranchpointError if it is gone.
    """
    comm_id = uuid4().hex
    content: dict[str, Any] = {"comm_id": comm_id, "target_name": CONTROL, "data": {}}
    opening = stamp.request("comm_open", content, {"version": CONTROL_VERSION})
    asked = {"comm_id": comm_id, "data": {"method": "request_states"}}
    gathering = _Gathering()
    try:
        # A machine that takes in nothing holds up what is sent to it as well.
        async with asyncio.timeout(PATIENCE_S):
            await pump.ask(opening, Marker())
            await pump.ask(stamp.request("comm_msg", asked), gathering)
            await pump.ask(stamp.request("comm_close", {"comm_id": comm_id, "data": {}}), Marker())
            await gathering.passed.wait()
    except TimeoutError:
        return None
    if pump.ended is not None:
        raise BranchpointError(str(pump.ended))
    return gathering.told
