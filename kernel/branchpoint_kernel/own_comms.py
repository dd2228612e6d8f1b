"""Comms whose kernel's end is in this process: the `comm` package, our publisher as the way out."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import comm
from comm.base_comm import BaseComm

from branchpoint_kernel.messages import EMPTY, Message
from branchpoint_kernel.publisher import Publisher


class OwnComm(BaseComm):
    """One of them. It is told of messages by `OwnComms.take`."""

    def __init__(self, owner: "OwnComms", **options: Any) -> None:
        # What is made opens its other end at once.
        self._owner = owner
        super().__init__(**options)

    def let_go(self) -> None:
        """Say nothing more. Its other end stays open: a page keeps the last it was shown."""
        self._closed = True

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[bytes] | None = None,
        **keys: Any,
    ) -> None:
        """Implements BaseComm."""
        content = {"data": data or {}, "comm_id": self.comm_id, **keys}
        self._owner.publish(self, msg_type, content, metadata or {}, buffers or ())

    def handle_msg(self, msg: dict[str, Any]) -> None:
        """Hear what a page says. Unlike BaseComm's it takes this process for no IPython."""
        if self._msg_callback is not None:
            self._msg_callback(msg)


class OwnComms:
    """The comms that this process itself holds, whatever becomes of the kernel in the machine."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._open: dict[str, OwnComm] = {}
        self._parent = EMPTY
        self._before = comm.create_comm

    def install(self) -> None:
        """From now on whatever makes a comm in this process, as ipywidgets does, makes ours."""
        comm.create_comm = self._create

    def end(self) -> None:
        """Say nothing more at any of them."""
        comm.create_comm = self._before
        for each in self._open.values():
            each.let_go()
        self._open.clear()

    def __contains__(self, comm_id: str) -> bool:
        return comm_id in self._open

    def __len__(self) -> int:
        return len(self._open)

    def listing(self, target: str | None = None) -> dict[str, dict[str, str]]:
        """What a `comm_info_reply` tells of them: of one target, or of all."""
        return {
            it.comm_id: {"target_name": it.target_name}
            for it in self._open.values()
            if target in (None, it.target_name)
        }

    @contextmanager
    def under(self, header: bytes) -> Generator[None]:
        """What they say meanwhile is put down to that request."""
        before, self._parent = self._parent, header
        try:
            yield
        finally:
            self._parent = before

    def take(self, message: Message) -> None:
        """A page says something to one of them, or closes its own end of it.

        They stay open then: the page is not the only one, and it may be loaded again.
        """
        content = message.read()
        if message.type == "comm_msg" and (known := self._open.get(str(content["comm_id"]))):
            known.handle_msg({"content": content, "buffers": list(message.buffers)})

    def publish(
        self,
        which: OwnComm,
        message_type: str,
        content: Mapping[str, Any],
        metadata: Mapping[str, Any],
        buffers: Sequence[bytes],
    ) -> None:
        """One of them says something."""
        if message_type == "comm_open":
            self._open[which.comm_id] = which
        elif message_type == "comm_close":
            self._open.pop(which.comm_id, None)
        self._publisher.publish(message_type, content, self._parent, metadata, buffers)

    def _create(self, *_: Any, **options: Any) -> BaseComm:
        return OwnComm(self, **options)
