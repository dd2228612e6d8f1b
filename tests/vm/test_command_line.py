"""A session without a notebook, from its creation to its removal, by the commands of a user."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import qemu_processes, wait_until

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

COMMAND = Path(sys.executable).with_name("branchpoint")
NAME = "größer werden"
PATIENCE_S = 200


def start(*words: str) -> subprocess.Popen[str]:
    """A command, under way."""
    return subprocess.Popen(
        [COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(command: subprocess.Popen[str], *, status: int = 0) -> str:
    """What a command wrote that ended as it was to."""
    with command:
        out, told = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == status, f"{command.args}: {out}{told}"
    return out if status == 0 else out + told


def say(*words: str, status: int = 0) -> str:
    return ended(start(*words), status=status)


def facts(*words: str) -> Any:
    return json.loads(say(*words, "--json"))


@pytest.fixture(scope="module")
def session(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The id of a session that is created, and of which nothing is left once it is removed."""
    folder = tmp_path_factory.mktemp("ein Ordner")
    manifest = folder / "branchpoint.yaml"
    manifest.write_text("egress: {allow: [api.example.org]}\n")
    created = say("create", "-f", str(manifest), "--name", NAME).strip()
    yield created
    say("rm", created)
    assert wait_until(lambda: not qemu_processes(home.root))
    assert not home.control(created).exists()
    left = [*home.root.glob(f"*/{created}"), *home.run.glob(f"*{created}*")]
    assert left == []


def test_a_session_is_listed_and_its_name_is_taken(session: str) -> None:
    (there,) = [one for one in facts("ls")["sessions"] if one["id"] == session]
    assert (there["key"], there["owner"]["kind"], there["machines"]) == (NAME, "owner", 1)
    told = say("create", "--name", NAME, status=1)
    assert f"there is already a session {NAME!r}" in told


def test_branches_have_futures_of_their_own_and_go_back(session: str) -> None:
    say("run", "numbers = iter(range(593, 700)); n = next(numbers)", "--session", NAME)
    saved = facts("checkpoint", "loaded", "--note", "half used", "--pin")
    assert saved["pinned"]
    report = facts("fork", "--from", "loaded", "--names", "ridge")
    assert [branch["name"] for branch in report["branches"]] == ["ridge"]
    assert say("run", "next(numbers)", "--branch", "ridge") == "594\n"
    assert say("run", "next(numbers); next(numbers)") == "595\n"
    assert facts("rollback", "loaded")["checkpoint"]["id"] == saved["id"]
    assert say("run", "next(numbers)") == "594\n"
    drawn = say("tree", session).splitlines()
    assert drawn[0] == f"{session} {NAME}"
    assert any("● loaded" in line and "pinned" in line for line in drawn)
    assert any("▶ main" in line and "current" in line for line in drawn)
    assert any("○ ridge" in line and "live" in line for line in drawn)


def test_two_commands_at_once_are_done_one_after_the_other(session: str) -> None:
    both = [start("checkpoint", label, "--json") for label in ("one", "another")]
    made = [json.loads(ended(command)) for command in both]
    first, second = sorted(made, key=lambda one: one["created_at"])
    assert second["parent"] == first["id"]


def is_busy() -> bool:
    return any(one["busy"] for one in facts("tree")["machines"])


def test_a_branch_in_which_code_runs_is_not_paused_but_goes_back(session: str) -> None:
    running = start("run", "import threading; threading.Event().wait()", "--session", session)
    assert wait_until(is_busy)
    assert "main" in say("pause", status=4)
    say("rollback", "base", "--no-safety")
    ended(running, status=1)


def test_a_session_that_was_closed_carries_on_where_it_was(session: str) -> None:
    before = say("run", "import os; kept = object(); id(kept), os.getpid()", "--session", session)
    say("close")
    assert "resume" in say("run", "kept", status=1)
    report = facts("resume", "--session", NAME)
    assert report["away_s"] > 0
    assert say("run", "id(kept), os.getpid()") == before
