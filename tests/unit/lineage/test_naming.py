"""What a name may be and which checkpoint it means."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.lineage.facts import a_base, a_checkpoint

from branchpoint_vmruntime.errors import NameTakenError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage.naming import (
    MAX_NAME_LENGTH,
    RESERVED_BRANCH_NAMES,
    branch_names,
    check_branch_name,
    check_label,
    next_label,
    resolve,
)

LINE = [
    a_base("b0b0b0b0"),
    a_checkpoint("aaaa1111", "b0b0b0b0", label="loaded"),
    a_checkpoint("aaaa2222", "aaaa1111", label="fitted"),
    a_checkpoint("cccc3333", "aaaa2222", label="loaded"),
    a_checkpoint("dddd4444", "cccc3333", label=""),
]
GOOD_NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


def test_a_label_means_the_newest_that_bears_it() -> None:
    assert resolve("loaded", LINE).id == "cccc3333"


def test_the_beginning_of_an_id_will_do_if_it_fits_one_alone() -> None:
    assert resolve("dddd", LINE).id == "dddd4444"
    assert resolve("aaaa2", LINE).id == "aaaa2222"


def test_a_beginning_that_fits_two_is_an_error_that_names_both() -> None:
    with pytest.raises(UsageError, match="'aaaa' could be any of 2 checkpoints: loaded, fitted"):
        resolve("aaaa", LINE)


def test_three_characters_of_an_id_are_too_few() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve("ddd", LINE)
    assert "at least 4 characters" in caught.value.hint


def test_a_label_goes_before_an_id() -> None:
    line = [*LINE, a_checkpoint("eeee5555", "dddd4444", label="dddd")]
    assert resolve("dddd", line).id == "eeee5555"


def test_a_typo_gets_a_suggestion_and_the_list_of_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match=r"'laoded'; there is: .*fitted") as caught:
        resolve("laoded", LINE)
    assert caught.value.hint == "did you mean 'loaded'?"


def test_without_checkpoints_the_hint_says_how_to_take_one() -> None:
    with pytest.raises(UnknownNameError, match="none yet") as caught:
        resolve("loaded", [])
    assert "%checkpoint" in caught.value.hint


def test_a_long_list_is_cut() -> None:
    many = [a_checkpoint(f"id{number:06}", label=f"step-{number}") for number in range(100)]
    with pytest.raises(UnknownNameError, match=r"step-99, .*, and 88 more"):
        resolve("nothing", many)


def test_an_empty_name_means_no_checkpoint() -> None:
    with pytest.raises(UnknownNameError):
        resolve("", LINE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("two words", "' '"),
        ("a,b", "','"),
        ("a\tb", r"'\\t'"),
        ("it's", '"\'"'),
        ("--from", "option"),
        ("a\u200bb", "cannot be shown"),
        ("a\x00b", "cannot be shown"),
        ("x" * 65, "64 characters, not 65"),
    ],
)
def test_a_name_that_would_confuse_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_label(text)
    with pytest.raises(UsageError, match=reason):
        check_branch_name(text)


@given(GOOD_NAMES)
def test_letters_and_digits_of_any_alphabet_are_fine(text: str) -> None:
    assume(text.isprintable())
    kept = check_label(text)
    assert check_label(kept) == kept


def test_letters_with_marks_are_fine_and_a_name_set_aside_cannot_be_asked_for() -> None:
    assert check_branch_name("हिन्दी") == "हिन्दी"
    with pytest.raises(UsageError, match="'~'"):
        check_branch_name("ridge~1")


def test_two_spellings_of_one_letter_are_one_name() -> None:
    assert check_label("Sa\u0308uberung") == check_label("S\u00e4uberung")


def test_all_is_no_branch_name_but_may_be_a_label() -> None:
    assert check_label("all") == "all"
    with pytest.raises(UsageError, match="every branch"):
        check_branch_name("all")


def test_no_branch_is_called_like_the_machine_that_packages_are_baked_in() -> None:
    assert check_label("image") == "image"
    with pytest.raises(UsageError, match="%image add"):
        branch_names(1, ["image"], ["main"])


@given(st.sets(st.integers(1, 40)))
def test_a_numbered_label_is_free_and_above_all_used_ones(used: set[int]) -> None:
    label = next_label("cp", {f"cp-{number}" for number in used})
    assert int(label.removeprefix("cp-")) == max(used, default=0) + 1


def test_forks_are_numbered_after_their_parent() -> None:
    assert branch_names(3, (), ["main", "main-1"]) == ("main-2", "main-3", "main-4")
    assert branch_names(1, (), ["main", "boost"], parent="boost") == ("boost-1",)


@given(st.integers(1, 20), st.text("ab-", min_size=1, max_size=MAX_NAME_LENGTH), st.data())
def test_default_fork_names_are_valid_distinct_and_free(
    count: int, parent: str, data: st.DataObject
) -> None:
    assume(not parent.startswith("-"))
    taken = {f"{parent}-{number}" for number in data.draw(st.sets(st.integers(1, 30)))} | {parent}
    names = branch_names(count, (), taken, parent=parent)
    assert len(set(names)) == count
    assert not taken & set(names)
    assert [check_branch_name(name) for name in names] == list(names)


@given(st.lists(GOOD_NAMES.filter(str.isprintable), min_size=1, max_size=5, unique_by=check_label))
def test_requested_names_are_taken_as_they_are(requested: list[str]) -> None:
    assume(not RESERVED_BRANCH_NAMES.keys() & set(requested))
    names = branch_names(len(requested), requested, ["main!"])
    assert list(names) == [check_label(name) for name in requested]


@pytest.mark.parametrize(
    ("count", "requested", "error", "reason"),
    [
        (0, (), UsageError, "0 forks"),
        (-1, (), UsageError, "-1 forks"),
        (3, ("a", "b"), UsageError, "3 forks need 3 names, not 2: a, b"),
        (2, ("a", "a"), UsageError, "twice: a"),
        (2, ("a", "main"), NameTakenError, "already a branch of that name: main"),
        (1, ("all",), UsageError, "every branch"),
    ],
)
def test_names_that_cannot_be_given_are_refused(
    count: int, requested: tuple[str, ...], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        branch_names(count, requested, ["main"])
