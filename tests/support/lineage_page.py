"""A page that has the lineage view: what it sends at the widget's comms, and what it is told."""

from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import uuid4

from tests.support.front_end import Answer, Message, Notebook

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGETS = "jupyter.widget"
CONTROL = "jupyter.widget.control"
RETURN = "branchpoint.lineage"


def data_of(answer: Answer) -> list[Message]:
    """What a cell displayed, by MIME type, in order."""
    return [m["content"]["data"] for m in answer.outputs if m["msg_type"] == "display_data"]


def comm_openings(messages: list[Message]) -> list[Message]:
    """The comms that were opened by the kernel."""
    return [m["content"] for m in messages if m["msg_type"] == "comm_open"]


class LineagePage:
    """It knows the widget by its model's id, and numbers what it asks for."""

    def __init__(self, notebook: Notebook, model: str = "") -> None:
        self.model = model
        self.last = ""
        self.buffers: list[bytes] = []
        self._notebook = notebook
        self._numbers = count(1)

    @classmethod
    async def open(cls, notebook: Notebook) -> "LineagePage":
        """Show it in a cell."""
        shown = data_of(await notebook.run("%lineage", allow_stdin=True))
        return cls(notebook, shown[0][WIDGET_VIEW]["model_id"])

    def say(self, data: object, comm_id: str = "") -> str:
        """Say something at a comm, the widget's if none is named; the message's id."""
        return self._send("comm_msg", {"comm_id": comm_id or self.model, "data": data})

    async def told(self, message_id: str) -> list[Message]:
        """What comes of a message, from busy to idle: what is said at comms."""
        while True:
            mine = [
                m
                for m in self._notebook.seen
                if m["parent_header"].get("msg_id") == message_id
                and not m["msg_type"].endswith("_reply")
            ]
            if mine and mine[-1]["content"].get("execution_state") == "idle":
                assert mine[0]["content"].get("execution_state") == "busy"
                return [m for m in mine if m["msg_type"] == "comm_msg"]
            await self._notebook.hear()

    async def act(self, op: object, **fields: Any) -> Message:
        """Ask for something; the answer."""
        self.last = f"page-{next(self._numbers)}"
        asked = {"id": self.last, "op": op, **fields}
        self.say({"method": "custom", "content": asked})

        def is_mine(message: Message) -> bool:
            data = message["content"].get("data", {})
            return data.get("method") == "custom" and data["content"]["id"] == self.last

        return (await self.next(is_mine))["content"]["data"]["content"]

    async def comms(self, target: str | None = WIDGETS) -> dict[str, Any]:
        """What it is told there is, of one target or of all."""
        message_id = self._notebook.client.comm_info(target)
        return (await self._notebook.reply(message_id))["content"]["comms"]

    async def open_control(self) -> str:
        """Open what a widget manager asks for states at; its id."""
        comm_id = uuid4().hex
        content: Message = {"comm_id": comm_id, "target_name": CONTROL, "data": {}}
        self._send("comm_open", content, {"version": "1.0.0"})
        return comm_id

    def ask_back(self) -> str:
        """Ask for the widget of a kernel that is no more; the message's id."""
        content: Message = {"comm_id": uuid4().hex, "target_name": RETURN, "data": {}}
        return self._send("comm_open", content)

    async def hear(self, kind: str) -> Message:
        """The content of the first message of a kind."""
        return (await self.next(lambda message: message["msg_type"] == kind))["content"]

    async def view(self) -> Message:
        """What it shows now."""
        return (await self.ask_states())["states"][self.model]["state"]["view"]

    async def ask_states(self) -> Message:
        """Ask for the states of all widgets, as a page does that is loaded anew."""
        comm_id = await self.open_control()
        sent = self.say({"method": "request_states"}, comm_id)
        [answer] = [m for m in await self.told(sent) if m["content"]["comm_id"] == comm_id]
        assert answer["content"]["data"]["method"] == "update_states"
        self.buffers = [bytes(buffer) for buffer in answer["buffers"]]
        self._send("comm_close", {"comm_id": comm_id, "data": {}})
        return answer["content"]["data"]

    async def until(self, is_wanted: Callable[[Message], bool]) -> Message:
        """The first view it is shown that is as wanted."""

        def shows_it(message: Message) -> bool:
            view = self.state_in(message).get("view")
            return view is not None and is_wanted(view)

        return self.state_in(await self.next(shows_it))["view"]

    def state_in(self, message: Message) -> Message:
        """What of the widget's state a message changes."""
        content = message["content"]
        if message["msg_type"] != "comm_msg" or content["comm_id"] != self.model:
            return {}
        return content["data"].get("state", {})

    @staticmethod
    def labels(view: Message) -> list[str]:
        """The checkpoints' labels."""
        return [it["facts"]["label"] for it in view["checkpoints"]]

    async def next(self, is_wanted: Callable[[Message], bool]) -> Message:
        """The first message that is as wanted, of those that came and those to come."""
        seen = self._notebook.seen
        at = 0
        while True:
            while at < len(seen):
                at += 1
                if is_wanted(seen[at - 1]):
                    return seen[at - 1]
            await self._notebook.hear()

    def _send(self, kind: str, content: Message, metadata: Message | None = None) -> str:
        client = self._notebook.client
        message = client.session.msg(kind, content, metadata=metadata)
        client.shell_channel.send(message)
        return message["header"]["msg_id"]
