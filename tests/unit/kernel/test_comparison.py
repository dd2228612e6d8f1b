"""What is said to differ between two machines."""

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_kernel.comparison import Change, FileChange, compare, compare_files, is_cache
from branchpoint_kernel.insides import (
    FileFacts,
    Insides,
    Survey,
    Variable,
    read_survey,
    read_variables,
    unpack,
)
from branchpoint_vmruntime.errors import GuestRefusedError

IMAGE = {"/etc": None, "/etc/a": "old", "/etc/b": "old", "/usr": None, "/usr/c": "old"}
PATHS = [*IMAGE, "/new", "/etc/new"]


def facts(path: str, content: str | None, kind: str = "file") -> FileFacts:
    return FileFacts(
        path=path,
        kind=kind if content is not None else "removed",
        mode=0o644,
        size=len(content or ""),
        mtime_ns=1,
        digest=content or "",
        in_image=path in IMAGE,
    )


def a_survey(*files: FileFacts, **packages: dict[str, str]) -> Survey:
    return Survey(files={each.path: each for each in files}, packages=packages)


def a_variable(name: str, digest: str, *, exact: bool = True, size: int = 28) -> Variable:
    return Variable(
        name=name, type="builtins.int", size=size, repr=digest, digest=digest, exact=exact
    )


def insides(survey: Survey | None, *variables: Variable) -> Insides:
    return Insides(survey=survey, variables={each.name: each for each in variables})


def changes(before: Survey, after: Survey) -> dict[str, Change]:
    return {each.path: each.change for each in compare_files(before, after)}


# A machine's files, as paths with contents: those of the image, some written, some removed.
FILES = st.dictionaries(
    st.sampled_from(["/etc/a", "/etc/b", "/usr/c", "/new", "/etc/new"]),
    st.sampled_from([None, "one", "two"]),
)


def seen(written: dict[str, str | None]) -> dict[str, str]:
    """What a user sees of a machine."""
    files = {path: content for path, content in IMAGE.items() if content is not None} | written
    return {path: content for path, content in files.items() if content is not None}


def surveyed(written: dict[str, str | None]) -> Survey:
    """What its survey says: nothing of a removed file that the image never had."""
    told = (facts(path, it) for path, it in written.items() if it is not None or path in IMAGE)
    return a_survey(*told)


@given(FILES, FILES)
def test_comparing_surveys_says_what_comparing_all_files_would(
    first: dict[str, str | None], second: dict[str, str | None]
) -> None:
    before, after = seen(first), seen(second)
    expected = {
        path: Change.ADDED
        if path not in before
        else Change.REMOVED
        if path not in after
        else Change.CHANGED
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    assert changes(surveyed(first), surveyed(second)) == expected


@given(FILES, FILES)
def test_the_other_way_round_added_is_removed(
    first: dict[str, str | None], second: dict[str, str | None]
) -> None:
    back = {Change.ADDED: Change.REMOVED, Change.REMOVED: Change.ADDED}
    there = changes(surveyed(first), surveyed(second))
    assert changes(surveyed(second), surveyed(first)) == {
        path: back.get(change, change) for path, change in there.items()
    }


def test_a_file_in_a_folder_that_the_other_removed_is_not_changed_but_gone() -> None:
    before = a_survey(facts("/usr/c", "new"))
    after = a_survey(facts("/usr", None))
    assert changes(before, after) == {"/usr": Change.REMOVED, "/usr/c": Change.REMOVED}


def test_a_new_folder_is_named_only_if_it_is_empty() -> None:
    after = a_survey(facts("/d", "", "dir"), facts("/d/f", "x"), facts("/e", "", "dir"))
    assert changes(a_survey(), after) == {"/d/f": Change.ADDED, "/e": Change.ADDED}


def test_a_large_file_is_told_by_size_and_time() -> None:
    large = replace(facts("/new", "x"), digest="", size=1 << 30)
    later = replace(large, mtime_ns=2)
    assert changes(a_survey(large), a_survey(large)) == {}
    assert changes(a_survey(large), a_survey(later)) == {"/new": Change.CHANGED}


def test_what_programs_keep_for_themselves_is_only_counted() -> None:
    after = a_survey(
        facts("/root/out.csv", "x"),
        facts("/root/pkg/__pycache__/m.cpython-311.pyc", "x"),
        facts("/root/.ipython/profile_default/history.sqlite", "x"),
    )
    found = compare(insides(a_survey()), insides(after))
    assert found.files == (
        FileChange(path="/root/out.csv", change=Change.ADDED, before=None, after=1),
    )
    assert found.caches == 2


@pytest.mark.parametrize("path", ["/root/.cache/x", "/home/me/.cache/x", "/var/log/apt/a"])
def test_caches_and_logs_are_told_from_a_users_files(path: str) -> None:
    assert is_cache(path)
    assert not is_cache("/root/data" + path)


def test_variables_are_told_by_their_content_not_their_size() -> None:
    before = insides(None, a_variable("a", "1"), a_variable("b", "1"), a_variable("gone", "1"))
    after = insides(
        None, a_variable("a", "2"), a_variable("b", "1", size=99), a_variable("new", "1")
    )
    found = compare(before, after)
    assert found.variables is not None
    assert [(each.name, each.change) for each in found.variables] == [
        ("a", Change.CHANGED),
        ("gone", Change.REMOVED),
        ("new", Change.ADDED),
    ]
    assert (found.same, found.look_same) == (1, 0)


def test_a_variable_known_only_by_its_repr_may_only_look_the_same() -> None:
    model = a_variable("model", "Model()", exact=False)
    found = compare(insides(None, model), insides(None, model))
    assert found.variables == ()
    assert (found.same, found.look_same) == (0, 1)
    grown = replace(model, size=2000)
    found = compare(insides(None, model), insides(None, grown))
    assert found.variables is not None
    assert [each.change for each in found.variables] == [Change.CHANGED]


def test_packages_are_compared_by_version_kind_by_kind() -> None:
    before = a_survey(python={"numpy": "1", "old": "1"}, debian={"curl": "7"})
    after = a_survey(python={"numpy": "2", "new": "1"}, debian={"curl": "7"})
    found = compare(insides(before), insides(after))
    assert found.packages is not None
    assert [(each.name, each.change, each.before, each.after) for each in found.packages] == [
        ("new", Change.ADDED, None, "1"),
        ("numpy", Change.CHANGED, "1", "2"),
        ("old", Change.REMOVED, "1", None),
    ]


def test_what_one_machine_could_not_tell_is_not_compared() -> None:
    silent = Insides(survey=None, variables=None, notes=("it was silent",))
    found = compare(insides(a_survey(), a_variable("a", "1")), silent)
    assert (found.files, found.variables, found.packages) == (None, None, None)
    assert found.notes == ("it was silent",)


def packed(told: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(told).encode())).decode()


def test_a_survey_is_read_back_as_the_guest_wrote_it() -> None:
    row = ["/bad\udcff", "file", 420, 1, 2, "abc", False]
    told = {"files": [row], "packages": {"python": {"a": "1"}}, "left_out": 3}
    survey = read_survey(packed(told))
    assert survey.files["/bad\udcff"].size == 1
    assert survey.packages == {"python": {"a": "1"}}
    assert survey.left_out == 3


@pytest.mark.parametrize(
    "output", ["", "no base64 at all", packed([]), packed({"files": [[1]]}), packed({"files": 1})]
)
def test_what_a_guest_garbles_is_refused_in_words(output: str) -> None:
    with pytest.raises(GuestRefusedError, match="cannot be read"):
        read_survey(output)


def test_a_variable_without_its_facts_is_refused_in_words() -> None:
    with pytest.raises(GuestRefusedError, match="cannot be read"):
        read_variables([{"name": "a"}])


def test_a_survey_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchpoint_kernel.insides._UNPACKED_LIMIT", 10)
    with pytest.raises(GuestRefusedError, match="cannot be read"):
        unpack(packed({"files": []}))
