"""Requests of our own that nobody sees, and what threads print meanwhile, which people must see.

ipykernel gives a thread's output the parent of the last request on its main shell. When that was
one of ours, or of a terminal's `branchpoint run`, no front end knows it: the output is given back
to the last request of a front end.
"""

from collections import deque

from branchpoint_kernel.conversations import Conversation, Marker, Silent
from branchpoint_kernel.messages import EMPTY, Channel, Message, under

# Mirrors _OUTPUTS in branchpoint_guestkernel/runs.py.
OUTPUTS = frozenset({"stream", "display_data", "update_display_data", "clear_output", "error"})
# What the guest calls requests that no message of ours has brought about: mirrors OWN_PREFIX in
# branchpoint_guestkernel/runs.py.
OF_GUESTD = "branchpoint-guestd-"
# Only the newest can still be the last that a kernel has heard.
REMEMBERED = 64


class Asides:
    """What one kernel was asked last, by us and by front ends."""

    def __init__(self) -> None:
        self._ours: deque[str] = deque(maxlen=REMEMBERED)
        self._theirs = EMPTY

    def note_sent(self, message: Message, conversation: Conversation) -> None:
        """A request goes to the kernel."""
        if message.channel is not Channel.SHELL:
            return
        if isinstance(conversation, Silent | Marker):
            self._ours.append(message.id)
        else:
            self._theirs = message.header

    def begin_under(self, header: bytes) -> None:
        """The request that what was going on when the kernel woke is put down to, until another."""
        if self._theirs == EMPTY:
            self._theirs = header

    def attributed(self, message: Message) -> Message:
        """What the kernel says, under a request that a front end knows, if it is output."""
        if message.type not in OUTPUTS or not self._is_unknown(message.parent_id):
            return message
        return under(message, self._theirs)

    def _is_unknown(self, request_id: str) -> bool:
        return request_id in self._ours or request_id.startswith(OF_GUESTD)
