"""What a kernel was sent and has not finished with: the part of a moment that the proxy knows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from branchpoint_kernel.conversations import REPLIED, Progress
from branchpoint_kernel.history import cell_of
from branchpoint_kernel.messages import Channel, Message, read
from branchpoint_vmruntime.lineage import Cell, OpenRequest

# Of a request that runs no code anyone asked to see, such as a completion.
NO_CELL = Cell(id="", count=0, source="")


@dataclass
class _Open:
    request: OpenRequest
    header: bytes
    type: str
    kept: bool
    progress: Progress
    may_ask: bool = True

    @property
    def over(self) -> bool:
        return self.progress.idle and (self.progress.replied or self.type not in REPLIED)

    @property
    def begun_to_end(self) -> bool:
        return self.progress.idle or self.progress.replied


class OpenRequests:
    """The open requests of one kernel, by the ids under which it answers them."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def note_sent(self, message: Message, count: int) -> None:
        """A request goes to the kernel; `count` is the number it has if it is a cell."""
        cell, kept = _cell(message, count)
        request = OpenRequest(id=message.id, cell=cell)
        may_ask = message.type != "execute_request" or message.read().get("allow_stdin", True)
        self._open[message.id] = _Open(
            request, message.header, message.type, kept, Progress(), may_ask
        )

    def inherit(self, request: OpenRequest) -> None:
        """The kernel was saved with a request open, and carries on with it."""
        kind = "execute_request" if is_execution(request) else ""
        header = json.dumps({"msg_id": request.id, "msg_type": kind}).encode()
        kept = request.cell.count > 0
        self._open[request.id] = _Open(request, header, kind, kept, Progress())

    def note_heard(self, message: Message) -> Cell | None:
        """The kernel says something; the cell of the history that ended with it, if one did."""
        entry = self._open.get(message.parent_id)
        if entry is None:
            return None
        if message.channel is Channel.STDIN:
            question = message.content.decode(errors="replace")
            entry.request = replace(entry.request, question=question)
            return None
        entry.progress.note(message)
        if entry.over:
            del self._open[message.parent_id]
        if message.type == "execute_reply" and entry.kept:
            return replace(entry.request.cell, count=message.read().get("execution_count", 0))
        return None

    def note_answered(self) -> None:
        """A person has answered what the kernel asked."""
        for entry in self._open.values():
            entry.request = replace(entry.request, question="")

    def asking(self) -> tuple[OpenRequest, ...]:
        """Those that wait for an answer of a person's."""
        return tuple(entry.request for entry in self._open.values() if entry.request.question)

    def note_ended(self, asking: Sequence[OpenRequest]) -> None:
        """Those questions were ended without an answer; what was asked since is open."""
        ended = {id(request) for request in asking}
        for entry in self._open.values():
            if id(entry.request) in ended:
                entry.request = replace(entry.request, question="")

    @property
    def execution(self) -> OpenRequest | None:
        """The cell that runs, if one does."""
        return next((request for request in self.listing() if is_execution(request)), None)

    def header(self, request: OpenRequest) -> bytes:
        """The header it was sent under."""
        return self._open[request.id].header

    def may_ask(self, request: OpenRequest) -> bool:
        """Whether its client takes questions."""
        return self._open[request.id].may_ask

    def listing(self) -> tuple[OpenRequest, ...]:
        """All of them. One whose end has come half has no cell: nothing of it is carried on."""
        return tuple(
            replace(entry.request, cell=NO_CELL, question="")
            if entry.begun_to_end
            else entry.request
            for entry in self._open.values()
        )


def is_execution(request: OpenRequest) -> bool:
    """Whether it is a cell that is carried on, and not something to be swallowed."""
    return bool(request.cell.source)


def _cell(message: Message, count: int) -> tuple[Cell, bool]:
    """The cell that a request runs in the kernel's main shell, and whether the history keeps it."""
    header = read(message.header)
    if message.type != "execute_request" or header.get("subshell_id") is not None:
        return NO_CELL, False
    content = message.read()
    if content.get("silent", False):
        return NO_CELL, False
    metadata = read(message.metadata)
    cell = cell_of(content, metadata, count)
    if cell is not None:
        return cell, True
    unkept = cell_of({**content, "store_history": True}, metadata, 0)
    return unkept or NO_CELL, False
