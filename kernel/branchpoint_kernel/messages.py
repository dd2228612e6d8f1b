"""Jupyter's messages: what came from a client or a kernel, and how ours are stamped and signed."""

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from typing import Any
from uuid import uuid4

DELIMITER = b"<IDS|MSG>"
PROTOCOL_VERSION = "5.4"
EMPTY = b"{}"
REMEMBERED_SIGNATURES = 65536


class Channel(StrEnum):
    """A channel of the protocol that carries signed messages."""

    SHELL = "shell"
    CONTROL = "control"
    STDIN = "stdin"
    IOPUB = "iopub"


class ForeignMessageError(ValueError):
    """What arrived is no message, or is not signed with our key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message in the bytes it came in, with the few facts that decide where it goes."""

    channel: Channel
    header: bytes
    parent: bytes
    metadata: bytes
    content: bytes
    buffers: tuple[bytes, ...] = ()
    id: str
    type: str
    parent_id: str

    @property
    def parts(self) -> list[bytes]:
        """As a KernelChannel wants it."""
        head = [self.channel.encode(), self.header, self.parent, self.metadata, self.content]
        return [*head, *self.buffers]

    def read(self) -> dict[str, Any]:
        """The content."""
        return read(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message from a client, with the identities its answer goes back to."""

    identities: tuple[bytes, ...]
    message: Message
    subshell: str | None

    @property
    def id(self) -> str:
        """The message id, by which its answers name it."""
        return self.message.id

    @property
    def type(self) -> str:
        """Such as `execute_request`."""
        return self.message.type

    @property
    def reply_type(self) -> str | None:
        """The type of its reply; None for one that gets none."""
        stem, _, kind = self.type.rpartition("_")
        return f"{stem}_reply" if kind == "request" else None


def read(frame: bytes) -> dict[str, Any]:
    """What a frame says, read as stock clients do: kernels write odd file names as they are."""
    return json.loads(frame.decode(errors="replace"))


def message_from_parts(channel: Channel, frames: Sequence[bytes]) -> Message:
    """A message from header, parent header, metadata, content and buffers."""
    if len(frames) < 4:
        raise ForeignMessageError(f"a message of {len(frames)} frames; there must be 4 or more")
    header, parent = read(frames[0]), read(frames[1])
    return Message(
        channel=channel,
        header=frames[0],
        parent=frames[1],
        metadata=frames[2],
        content=frames[3],
        buffers=tuple(frames[4:]),
        id=str(header["msg_id"]),
        type=str(header["msg_type"]),
        parent_id=str(parent.get("msg_id", "")),
    )


def with_content(message: Message, content: Mapping[str, Any]) -> Message:
    """The same message with another content."""
    return replace(message, content=json.dumps(content).encode())


def under(message: Message, parent: bytes) -> Message:
    """The same message as if that header's request had brought it about."""
    return replace(message, parent=parent, parent_id=str(read(parent).get("msg_id", "")))


def made(
    channel: Channel, message_type: str, content: Mapping[str, Any], *, parent: bytes = EMPTY
) -> Message:
    """What a kernel might have said, for those who take in what kernels say."""
    header = {"msg_id": uuid4().hex, "msg_type": message_type, "version": PROTOCOL_VERSION}
    packed = [json.dumps(header).encode(), parent, EMPTY, json.dumps(content).encode()]
    return message_from_parts(channel, packed)


def now() -> str:
    """The time on this host, as messages bear it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class Stamp:
    """Signs what we send under one session with fresh ids and this host's time; checks what comes.

    A kernel repeats its message ids after a rollback and in every fork, and front ends drop
    messages whose session id changes: so whatever a guest says leaves under this stamp.
    """

    def __init__(self, *, key: bytes, scheme: str = "hmac-sha256") -> None:
        self.session_id = uuid4().hex
        self._key = key
        self._digest = scheme.removeprefix("hmac-")
        self._number = count()
        self._seen: dict[bytes, None] = {}

    def read(self, channel: Channel, frames: Sequence[bytes]) -> Request:
        """What a client sent; ForeignMessageError unless it is whole and signed with our key."""
        try:
            at = frames.index(DELIMITER)
            self._check(frames[at + 1], frames[at + 2 : at + 6])
            message = message_from_parts(channel, frames[at + 2 :])
            subshell = read(message.header).get("subshell_id")
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ForeignMessageError(f"not a message of this session: {error}") from error
        return Request(identities=tuple(frames[:at]), message=message, subshell=subshell)

    def restamp(self, message: Message) -> list[bytes]:
        """A kernel's message as ours, ready to send: all but the header byte for byte."""
        version = str(read(message.header).get("version", PROTOCOL_VERSION))
        body = [self._header(message.type, version), message.parent, message.metadata]
        return self._sealed([*body, message.content], message.buffers)

    def make(
        self,
        message_type: str,
        content: Mapping[str, Any],
        *,
        parent: bytes = EMPTY,
        metadata: Mapping[str, Any] | None = None,
        buffers: Sequence[bytes] = (),
    ) -> list[bytes]:
        """A message of our own, ready to send; `parent` is a header as it came."""
        body = [self._header(message_type, PROTOCOL_VERSION), parent]
        packed = [json.dumps(metadata or {}).encode(), json.dumps(content).encode()]
        return self._sealed([*body, *packed], buffers)

    @staticmethod
    def id_of(frames: Sequence[bytes]) -> str:
        """The id of a message that was made here."""
        return str(read(frames[2])["msg_id"])

    def request(
        self,
        message_type: str,
        content: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """A request of our own to a kernel, on its shell channel."""
        header = self._header(message_type, PROTOCOL_VERSION)
        packed = [json.dumps(metadata or {}).encode(), json.dumps(content).encode()]
        return message_from_parts(Channel.SHELL, [header, EMPTY, *packed])

    def _header(self, message_type: str, version: str) -> bytes:
        header = {
            "msg_id": f"{self.session_id}_{next(self._number)}",
            "msg_type": message_type,
            "username": "branchpoint",
            "session": self.session_id,
            "date": now(),
            "version": version,
        }
        return json.dumps(header).encode()

    def _sealed(self, body: list[bytes], buffers: Sequence[bytes]) -> list[bytes]:
        return [DELIMITER, self._signature(body), *body, *buffers]

    def _signature(self, body: Sequence[bytes]) -> bytes:
        if not self._key:
            return b""
        signature = hmac.new(self._key, digestmod=self._digest)
        for frame in body:
            signature.update(frame)
        return signature.hexdigest().encode()

    def _check(self, signature: bytes, body: Sequence[bytes]) -> None:
        if not self._key:
            return
        if not hmac.compare_digest(signature, self._signature(body)):
            raise ForeignMessageError("the signature is not made with this kernel's key")
        if signature in self._seen:
            raise ForeignMessageError("a message was repeated")
        self._seen[signature] = None
        if len(self._seen) > REMEMBERED_SIGNATURES:
            del self._seen[next(iter(self._seen))]
