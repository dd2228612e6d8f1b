"""What pages send is an order of the known kind, or is refused in words before a thing is done."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_nbext.orders import (
    ACTIONS,
    MAX_BODY_BYTES,
    MAX_NAME,
    MAX_NOTE,
    QUESTIONS,
    Field,
    Order,
    branch_to_open,
    order,
)
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.session import MAX_FORKS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NAMES = [name for fields in (*ACTIONS.values(), *QUESTIONS.values()) for name in fields]
ASKED = st.fixed_dictionaries(
    {"session": st.just("s") | JSON, "op": st.sampled_from([*ACTIONS, *QUESTIONS, "end"]) | JSON},
    optional=dict.fromkeys(NAMES, JSON),
)


def body(**fields: Any) -> bytes:
    return json.dumps({"session": "s", **fields}).encode()


@given(asked=ASKED | JSON, known=st.sampled_from([ACTIONS, QUESTIONS]))
def test_whatever_is_sent_is_an_order_of_known_fields_or_a_refusal(
    asked: Any, known: Mapping[str, Mapping[str, Field]]
) -> None:
    try:
        made = order(json.dumps(asked).encode(), known)
    except UsageError as error:
        words = str(error)
        assert 0 < len(words) < 4 * MAX_NAME
    else:
        assert (made.session, made.op) == (asked["session"], asked["op"])
        assert set(made.fields) <= set(known[made.op])
        assert {**asked, **made.fields} == asked


@given(raw=st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_in_words(raw: bytes) -> None:
    with pytest.raises(UsageError, match="what was sent"):
        order(b"\xff" + raw, ACTIONS)


@given(asked=JSON)
def test_a_branch_to_be_opened_is_asked_for_by_texts_or_refused(asked: Any) -> None:
    with pytest.raises(UsageError):
        branch_to_open(json.dumps(asked).encode())


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "checkpoint"},
        {"op": "checkpoint", "label": "geladen", "note": "so", "branch": "main", "pinned": True},
        {"op": "fork", "count": 3, "start": "loaded", "names": ["a", "b", "c"], "branch": "main"},
        {"op": "rollback", "target": "loaded", "branch": "main", "safety": False},
        {"op": "switch", "name": "ridge"},
        {"op": "keep", "name": "ridge"},
        {"op": "drop", "names": ["ridge", "forest"]},
        {"op": "pause"},
        {"op": "resume", "name": "ridge"},
        {"op": "pin", "checkpoint": "loaded", "pinned": False},
        {"op": "annotate", "checkpoint": "loaded", "label": "", "note": "better"},
    ],
    ids=lambda fields: f"{fields['op']}-{len(fields)}",
)
def test_every_action_is_taken_with_all_its_fields(fields: dict[str, Any]) -> None:
    wanted = {name: it for name, it in fields.items() if name != "op"}
    assert order(body(**fields), ACTIONS) == Order(session="s", op=fields["op"], fields=wanted)  # pyright: ignore[reportArgumentType]


def test_a_field_that_is_null_is_one_that_is_left_out() -> None:
    assert order(body(op="pause", name=None), ACTIONS).fields == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"op": "end"}, '"end" cannot be asked for here; what can: checkpoint, fork'),
        ({"op": ["fork"]}, r'\["fork"\] cannot be asked for here'),
        ({"op": "run", "code": "1"}, '"run" cannot be asked for here'),
        ({"op": "switch"}, "switch needs name"),
        ({"op": "switch", "name": ""}, "name cannot be empty"),
        ({"op": "switch", "name": 4}, "name has to be a text, not 4"),
        ({"op": "switch", "name": "x" * 201}, "name has at most 200 characters, not 201"),
        ({"op": "switch", "name": "\ud800"}, "there is half a character in it"),
        ({"op": "switch", "name": "a", "force": 1}, 'nothing is known of a field "force"'),
        ({"op": "fork", "count": True}, "count has to be a whole number, not true"),
        ({"op": "fork", "count": 1.0}, r"count has to be a whole number, not 1\.0"),
        ({"op": "fork", "count": 0}, "count has to be from 1 to"),
        ({"op": "fork", "count": 1, "names": "a"}, "names has to be a list of texts"),
        ({"op": "fork", "count": 1, "names": [1]}, "each of names has to be a text, not 1"),
        ({"op": "drop", "names": ["x"] * (MAX_FORKS + 1)}, "names has at most"),
        ({"op": "pin", "checkpoint": "a", "pinned": "yes"}, "pinned has to be true or false"),
        ({"op": "checkpoint", "note": "x" * (MAX_NOTE + 1)}, "note has at most 10000 characters"),
    ],
)
def test_what_cannot_be_is_quoted_and_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        order(body(**fields), ACTIONS)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}" + b" " * MAX_BODY_BYTES, "more than the 256 KiB"),
        (b'"switch"', 'a JSON object, not "switch"'),
        (b'{"op": "switch", "name": "a"}', "session has to be a text, not null"),
    ],
    ids=["nothing", "deep", "long", "a text", "no session"],
)
def test_a_body_that_is_no_order_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        order(raw, ACTIONS)
