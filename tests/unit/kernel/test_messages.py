"""Signing, checking and restamping, without a socket."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session

from branchpoint_kernel.messages import (
    DELIMITER,
    Channel,
    ForeignMessageError,
    Stamp,
    message_from_parts,
    with_content,
)

KEY = b"a key"


def signed(client: Session, message_type: str, content: dict[str, Any]) -> list[bytes]:
    """A request as a stock client sends it."""
    message: dict[str, Any] = client.msg(message_type, content)  # pyright: ignore[reportUnknownMemberType]
    return client.serialize(message, ident=[b"who"])


def guest_parts(**header: object) -> list[bytes]:
    """A kernel's message as it comes from a guest."""
    facts = {"msg_id": "old", "msg_type": "stream", "session": "guest", "version": "5.3", **header}
    return [json.dumps(facts).encode(), b'{"msg_id": "q", "odd":  1}', b"{ }", b'{"text":"a"}']


def test_what_is_no_utf8_is_read_as_stock_clients_do() -> None:
    parts = [*guest_parts(username="u")[:3], b'{"text": "a\xff"}']
    parts[0] = parts[0].replace(b'"u"', b'"\xff"')
    message = message_from_parts(Channel.IOPUB, parts)
    assert message.read() == {"text": "a\ufffd"}
    assert Stamp(key=KEY).restamp(message)[5] == parts[3]


def test_stock_clients_read_what_we_sign_and_we_read_what_they_sign() -> None:
    ours, theirs = Stamp(key=KEY), Session(key=KEY)
    sent = signed(theirs, "execute_request", {"code": "1"})
    request = ours.read(Channel.SHELL, sent)
    assert request.identities == (b"who",)
    assert request.type == "execute_request"
    assert request.reply_type == "execute_reply"
    assert request.message.read() == {"code": "1"}
    _, frames = theirs.feed_identities(ours.make("status", {"execution_state": "busy"}))
    assert theirs.deserialize(frames)["content"] == {"execution_state": "busy"}


def test_a_message_under_another_key_or_said_twice_is_refused() -> None:
    stamp, stranger = Stamp(key=KEY), Session(key=b"other")
    with pytest.raises(ForeignMessageError, match="not made with this kernel's key"):
        stamp.read(Channel.SHELL, signed(stranger, "execute_request", {}))
    friend = Session(key=KEY)
    sent = signed(friend, "execute_request", {})
    stamp.read(Channel.SHELL, sent)
    with pytest.raises(ForeignMessageError, match="repeated"):
        stamp.read(Channel.SHELL, sent)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_garbage_is_refused_as_such(frames: list[bytes]) -> None:
    with pytest.raises(ForeignMessageError):
        Stamp(key=b"").read(Channel.SHELL, frames)


@given(st.lists(st.binary(), max_size=3))
def test_restamping_changes_the_header_alone(buffers: list[bytes]) -> None:
    stamp = Stamp(key=KEY)
    parts = [*guest_parts(), *buffers]
    message = message_from_parts(Channel.IOPUB, parts)
    first, second = stamp.restamp(message), stamp.restamp(message)
    assert first[0] == DELIMITER
    assert first[3:] == parts[1:]
    header, again = json.loads(first[2]), json.loads(second[2])
    assert header["msg_id"] != again["msg_id"]
    assert header["session"] == again["session"] == stamp.session_id
    assert header["msg_type"] == "stream"
    assert header["version"] == "5.3"
    assert header["date"].endswith("Z")


def test_another_content_leaves_the_rest_as_it_was() -> None:
    message = message_from_parts(Channel.SHELL, [*guest_parts(), b"buffer"])
    other = with_content(message, {"code": "2"})
    assert other.parts[1:4] == message.parts[1:4]
    assert other.parts[5:] == [b"buffer"]
    assert other.read() == {"code": "2"}


@pytest.mark.parametrize(
    "parts", [[], [b"{}"] * 4, [b"no json", b"{}", b"{}", b"{}"], [b"[]", b"{}", b"{}", b"{}"]]
)
def test_a_guests_garbage_is_no_message(parts: list[bytes]) -> None:
    with pytest.raises((ForeignMessageError, KeyError, ValueError, TypeError)):
        message_from_parts(Channel.IOPUB, parts)
