"""Who an incarnation is, and what the guest answers to that."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from branchpoint_vmruntime.incarnation import Awake, Frozen, Identity, host_name


@given(st.text())
@example("a" * 62 + "-b")
@example("---")
def test_a_host_name_is_one_whatever_the_branch_is_called(branch: str) -> None:
    name = host_name(branch)
    assert 1 <= len(name) <= 63
    assert name.isascii()
    assert name.replace("-", "a").isalnum()
    assert name[0] != "-"
    assert name[-1] != "-"


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=63))
def test_a_branch_that_could_be_a_host_name_is_one(branch: str) -> None:
    assert host_name(branch) == branch


def test_an_identity_is_new_with_each_incarnation() -> None:
    one, two = (Identity.new(session="s", branch="b", index=1) for _ in range(2))
    assert one.incarnation != two.incarnation
    assert one.token != two.token


def test_an_identity_is_json_for_the_guest_to_read() -> None:
    identity = Identity.new(session="s-1", branch="Überblick", index=3)
    read = json.loads(identity.as_json())
    assert (read["session"], read["branch"], read["index"]) == ("s-1", "Überblick", 3)
    assert (read["incarnation"], read["token"]) == (identity.incarnation, identity.token)


def test_an_identity_is_one_line_as_the_wire_wants_it() -> None:
    assert "\n" not in Identity.new(session="a\nb", branch="c\nd", index=0).as_json()


def test_a_guest_without_generators_to_renew_names_none() -> None:
    assert Awake.from_answer(["c0ffee", "", "0", "1000", "2000", "3000"]).reseeded == ()


@pytest.mark.parametrize("answer", [[], ["c0ffee"], ["c0ffee", "", "x", "1", "2", "3"]])
def test_an_answer_that_is_none_is_a_value_error(answer: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Awake.from_answer(answer)


@pytest.mark.parametrize(
    "told", [None, [], "long", {"<b>": 1.0}, {"drain": "long"}, {"drain": True}, {"drain": -1}]
)
def test_what_a_guest_says_of_how_long_it_took_is_lengths_of_time_or_nothing(told: object) -> None:
    assert Frozen.from_answer(told).phases_ms == {}


def test_a_guest_cannot_put_any_number_of_lengths_on_record() -> None:
    told = {f"p{'a' * n}": 1.0 for n in range(20)}
    assert len(Frozen.from_answer(told).phases_ms) < 20
    assert Frozen.from_answer({"freeze": 3, "drain": 0.5}).phases_ms == {"freeze": 3, "drain": 0.5}
