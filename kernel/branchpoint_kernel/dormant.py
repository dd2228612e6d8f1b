"""What can be said of a kernel whose machine is paused, so that a look does not resume it."""

import socket
from typing import Any

from branchpoint_kernel.comms import Comms
from branchpoint_kernel.messages import Channel, Message, Request


class Dormant:
    """Answers what front ends ask by themselves: when a page is opened, or every few seconds."""

    def __init__(self, comms: Comms) -> None:
        self._comms = comms
        self._debug_info: dict[str, Any] | None = None

    def answer(self, request: Request) -> dict[str, Any] | None:
        """The content of the reply; None if only the kernel can answer that."""
        match request.type:
            case "comm_info_request":
                target = request.message.read().get("target_name")
                return {"status": "ok", "comms": self._comms.listing(target)}
            case "usage_request":
                return {"hostname": socket.gethostname(), "kernel_cpu": 0.0, "kernel_memory": 0}
            case "debug_request" if self._debug_info is not None and _is_about_state(request):
                return {**self._debug_info, "request_seq": request.message.read().get("seq", 0)}
            case _:
                return None

    def note_request(self, request: Request) -> None:
        """A request goes to the kernel: one to the debugger may change how that is."""
        if request.type == "debug_request" and not _is_about_state(request):
            self._debug_info = None

    def forget(self) -> None:
        """There is another kernel now, or the same one awake again."""
        self._debug_info = None

    def note_reply(self, message: Message) -> None:
        """The kernel has answered a request on control."""
        if message.channel is Channel.CONTROL and message.type == "debug_reply":
            content = message.read()
            if content.get("command") == "debugInfo":
                self._debug_info = content


def _is_about_state(request: Request) -> bool:
    return request.message.read().get("command") == "debugInfo"
