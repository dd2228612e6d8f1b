"""Which session a command is about."""

from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_session

from branchpoint_cli.sessions import named
from branchpoint_vmruntime.errors import UnknownNameError, UsageError

SESSIONS = [a_session("7f3c09d2ab41", "script-1"), a_session("7f3c77777777", "script-2")]


@pytest.mark.parametrize("name", ["7f3c09d2ab41", "7f3c0", "script-1"])
def test_a_session_is_named_by_its_id_or_its_key(name: str) -> None:
    assert named(name, SESSIONS) is SESSIONS[0]


@pytest.mark.parametrize("name", ["a.ipynb", "./a.ipynb", "none/../a.ipynb"])
def test_a_notebook_names_its_session_from_the_folder_one_is_in(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_notebook = a_session("aa0012345678", str(tmp_path / "a.ipynb"))
    monkeypatch.chdir(tmp_path)
    assert named(name, [*SESSIONS, of_notebook]) is of_notebook


@pytest.mark.parametrize("name", ["first", "first.ipynb"])
def test_a_notebook_is_found_by_its_name_from_any_folder_if_no_other_bears_it(name: str) -> None:
    first = a_session("aa0012345678", "/home/me/work/first.ipynb")
    other = a_session("bb0012345678", "/home/me/work/other.ipynb")
    assert named(name, [*SESSIONS, first, other]) is first
    twin = a_session("cc0012345678", "/home/me/old/first.ipynb")
    with pytest.raises(UsageError, match="could be any of: aa0012345678") as caught:
        named(name, [*SESSIONS, first, other, twin])
    assert "path" in caught.value.hint


def test_the_start_of_two_ids_is_no_name() -> None:
    with pytest.raises(UsageError, match="could be any of: 7f3c09d2ab41"):
        named("7f3c", SESSIONS)


@pytest.mark.parametrize("name", ["7f", "", "b.ipynb"])
def test_an_unknown_name_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(UnknownNameError, match="script-1"):
        named(name, SESSIONS)
