"""Where commands write to: files, pipes nobody reads from, places that lack most characters."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal

COMMAND = (sys.executable, "-P", "-m", "branchpoint_cli")


@pytest.fixture
def environment(own_home: Home) -> Mapping[str, str]:
    """Of a process that looks at a home with one closed session, without a word of encodings."""
    with Journal.open(own_home.database) as journal:
        journal.add_session(a_session(key="/home/me/größer 加载.ipynb"))
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        for number in range(400):
            parent = f"c{number - 1:07}" if number else "base0000"
            journal.add_checkpoint(a_checkpoint(f"c{number:07}", parent), advance=None)
    taken = {"PYTHONIOENCODING", "PYTHONUTF8", "LANG", "LC_ALL", "LC_CTYPE"}
    return {name: value for name, value in os.environ.items() if name not in taken}


def test_in_a_locale_of_c_everything_is_shown(environment: Mapping[str, str]) -> None:
    shown = subprocess.run(
        [*COMMAND, "tree"], env={**environment, "LC_ALL": "C"}, capture_output=True, check=True
    )
    assert "größer 加载.ipynb\n● base" in shown.stdout.decode()
    assert shown.stderr == b""


@pytest.mark.parametrize("words", [["tree"], ["tree", "--json"], ["ls"], ["checkpoint"]])
def test_where_there_is_only_ascii_what_cannot_be_written_is_a_question_mark(
    environment: Mapping[str, str], words: list[str]
) -> None:
    shown = subprocess.run(
        [*COMMAND, *words],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert shown.returncode == (1 if words == ["checkpoint"] else 0)
    assert b"Traceback" not in shown.stderr
    assert (shown.stdout + shown.stderr).isascii()


@pytest.mark.parametrize("words", [["tree", "--json"], ["ls", "--json"], ["ledger", "--json"]])
def test_json_is_plain_and_on_one_line_unless_somebody_watches_whatever_colour_is_asked_for(
    environment: Mapping[str, str], words: list[str]
) -> None:
    shown = subprocess.run(
        [*COMMAND, *words],
        env={**environment, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(shown.stdout.splitlines()) == 1
    json.loads(shown.stdout)


@pytest.mark.parametrize("words", [["tree"], ["tree", "--json"], ["--help"]])
def test_whoever_reads_no_further_is_no_error(
    environment: Mapping[str, str], words: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        shown = subprocess.run(
            [*COMMAND, *words], env=environment, stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert shown.stderr == b""
    assert shown.returncode in {0, 141}


@pytest.mark.parametrize("words", [["tree"], ["tree", "--json"], ["completion", "bash"]])
def test_what_cannot_be_written_is_said_in_words(
    environment: Mapping[str, str], words: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        shown = subprocess.run(
            [*COMMAND, *words], env=environment, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert shown.returncode == 1
    told = shown.stderr.decode()
    assert told.startswith("✗ what came of it cannot be written to standard output: No space left")
    assert "Traceback" not in told


def test_that_errors_cannot_be_told_changes_nothing(environment: Mapping[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        shown = subprocess.run(
            [*COMMAND, "tree", "nope"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (shown.returncode, shown.stdout) == (3, b"")


def test_with_standard_output_closed_the_command_is_done_all_the_same(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    told = tmp_path / "told"
    line = f"{sys.executable} -P -m branchpoint_cli tree >&- 2> {told}"
    assert subprocess.run(line, shell=True, env=environment, check=False).returncode == 0
    assert told.read_text() == ""
