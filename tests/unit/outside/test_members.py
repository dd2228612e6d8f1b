"""Members of a JSON text that comes in pieces: the same as of the whole, and never an error."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.outside.members import LONGEST_VALUE, Members

WANTED = [("usage",), ("model",), ("response", "usage"), ("response", "model")]

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(['"usage":{', '\\"', "}", "]", ",", ":", "usage"])
)
keys = st.sampled_from(["usage", "model", "response", "choices", 'a"b', "\\", ""]) | st.text(
    max_size=4
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(keys, values, max_size=5)
cuts = st.lists(st.integers(0, 300), max_size=12)


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    """The data, cut at those places."""
    places = sorted({0, len(data), *(place for place in at if place < len(data))})
    return [data[begin:end] for begin, end in pairwise(places)]


def read(parts: list[bytes]) -> dict[tuple[str, ...], object]:
    members = Members(WANTED)
    for part in parts:
        members.feed(part)
    return members.found()


def expected(root: dict[str, object]) -> dict[tuple[str, ...], object]:
    found: dict[tuple[str, ...], object] = {}
    for path in WANTED:
        at: object = root
        for name in path:
            if not isinstance(at, dict) or name not in at:
                break
            at = at[name]  # pyright: ignore[reportUnknownVariableType]
        else:
            found[path] = at
    return found


@given(objects, cuts, st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}]))
def test_members_are_those_of_the_parsed_text_however_it_is_cut(
    root: dict[str, object], at: list[int], style: dict[str, Any]
) -> None:
    data = json.dumps(root, **style).encode()
    assert read(pieces(data, at)) == expected(root)


@given(objects)
def test_members_are_found_byte_by_byte(root: dict[str, object]) -> None:
    data = json.dumps(root).encode()
    assert read([data[n : n + 1] for n in range(len(data))]) == expected(root)


@given(st.lists(st.binary(max_size=40) | st.text('{}[]":,\\usage', max_size=20).map(str.encode)))
def test_garbage_is_no_error(parts: list[bytes]) -> None:
    assert read(parts).keys() <= set(WANTED)


def test_a_member_given_twice_counts_as_it_was_given_last() -> None:
    assert read([b'{"usage": 1, "usage": {"a": 2}}']) == {("usage",): {"a": 2}}


def test_a_name_may_be_escaped() -> None:
    assert read([b'{"us\\u0061ge": 1}']) == {("usage",): 1}


def test_a_value_longer_than_the_bound_is_not_taken() -> None:
    long = "x" * LONGEST_VALUE
    assert read([json.dumps({"usage": long, "model": "m"}).encode()]) == {("model",): "m"}


def test_what_is_not_wanted_is_not_held() -> None:
    members = Members(WANTED)
    for part in (b'{"choices": ["', *[b"x" * 4096] * 64, b'"], "usage": 7}'):
        members.feed(part)
        held = [value for value in vars(members).values() if isinstance(value, bytes | bytearray)]
        assert sum(map(len, held)) < 1024
    assert members.found() == {("usage",): 7}


def test_what_keeps_its_reader_busy_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchpoint_vmruntime.outside.members.MOST_MARKS", 1000)
    members = Members(WANTED)
    members.feed(b'{"x": ')
    members.feed(b"[]" * 500)
    members.feed(b', "usage": 7}')
    assert members.found() == {}
