"""Hosts as they are: two users on one, odd places and surroundings, two openers of one notebook."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import StartKernel
from tests.support.homes import lend_base, lend_images
from tests.support.live_kernel import qemu_processes, wait_until
from tests.support.other_user import NoOtherUserError, OtherUser, other_user

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import running_machines, sweep

pytestmark = pytest.mark.vm

# To connect is all it does: the answer tells whether anybody listens to this user.
_CONNECTS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as it:
    it.connect(sys.argv[1])
"""
_TMPFS = Path("/dev/shm")


@contextmanager
def commands(home: Home, cwd: Path) -> Generator["Commands"]:
    """Commands in a home, of which no machine is left."""
    yield Commands(home, cwd)
    assert wait_until(lambda: not qemu_processes(home.root)), "a machine outlived its owner"


class Commands:
    """Says `branchpoint` with words, in a home and a folder."""

    def __init__(self, home: Home, cwd: Path) -> None:
        self._home = home
        self._cwd = cwd

    def say(self, *words: str, status: int = 0, **environment: str) -> str:
        """What it wrote; it must end with that status. Its standard input is closed."""
        command = [sys.executable, "-P", "-m", "branchpoint_cli", *words]
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", *command],
            env=os.environ | {"BRANCHPOINT_HOME": str(self._home.root)} | environment,
            cwd=self._cwd,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=240,
        )
        assert done.returncode == status, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout if status == 0 else done.stdout + done.stderr


@pytest.fixture
def other(home: Home) -> Generator[OtherUser]:
    """Somebody else on this host."""
    try:
        with other_user(home) as user:
            yield user
    except NoOtherUserError as error:
        pytest.skip(str(error))


def test_two_users_of_one_host_see_and_touch_nothing_of_each_other(
    home: Home, other: OtherUser, tmp_path: Path
) -> None:
    # What a kernel that was killed left half made may be of another module.
    sweep(home)
    with commands(home, tmp_path) as mine:
        theirs = other.say("create", "--name", "ours").strip()
        own = mine.say("create", "--name", "ours").strip()
        try:
            other.say("run", "x = 'theirs'")
            assert len(running_machines(other.home)) == 0
            assert [it["id"] for it in json.loads(other.say("ls", "--json"))["sessions"]] == [
                theirs
            ]
            assert own in mine.say("ls")
            assert theirs not in mine.say("ls")
            assert json.loads(other.say("ls", "--json"))["leaks"] == []
            assert sweep(home) == []
            assert "nothing to sweep" in other.say("sweep")
            for of in (home.control(own), home.database, home.root, home.layers / own):
                assert other.run("cat", str(of)).returncode != 0
                assert other.run("ls", str(of)).returncode != 0
            denied = other.run(other.python, "-P", "-c", _CONNECTS, str(home.control(own)))
            assert "PermissionError" in denied.stderr
            assert mine.say("run", "'mine'", "--session", own) == "'mine'\n"
            assert other.say("run", "x") == "'theirs'\n"
        finally:
            mine.say("rm", own)
            other.say("rm", theirs)
    assert not qemu_processes(other.home.root)


def test_a_home_in_memory_with_odd_names_is_used_in_a_locale_of_c(
    home: Home, tmp_path: Path
) -> None:
    if not os.access(_TMPFS, os.W_OK):
        pytest.skip(f"there is no {_TMPFS} to write to")
    # Longer than any address of a socket, on another file system than all the rest.
    root = _TMPFS / f"branchpoint {os.getpid()}" / "großes, = Heim" / ("lang " * 30).strip()
    odd = Home(root, root / "run")
    root.parent.mkdir(parents=True)
    notebooks = tmp_path / "Hefte, 笔记"
    notebooks.mkdir()
    (notebooks / "größe.yaml").write_text("egress: {allow: [api.example.org]}\n")
    plain: dict[str, Any] = {"LC_ALL": "C", "PYTHONUTF8": "0", "TMPDIR": "/nowhere"}
    try:
        lend_images(home, odd)
        lend_base(home, odd)
        with commands(odd, notebooks) as it:
            made = it.say("create", "-f", "größe.yaml", "--name", "näme", **plain).strip()
            assert it.say("run", "x = 'ü'; x", **plain) == "'ü'\n"
            it.say("checkpoint", "été", **plain)
            it.say("run", "x = 2", XDG_RUNTIME_DIR="/nowhere")
            it.say("rollback", "été", "--no-safety", HOME="")
            assert it.say("exec", "--", "echo", "naïve", **plain) == "naïve\n"
            assert it.say("run", "x") == "'ü'\n"
            it.say("rm", made, **plain)
            assert "no sessions yet" in it.say("ls", **plain)
    finally:
        subprocess.run(["rm", "-rf", root.parents[1]], check=True)


def test_a_notebook_that_is_open_is_not_opened_again_and_commands_reach_its_kernel(
    home: Home, start_kernel: StartKernel, tmp_path: Path
) -> None:
    with commands(home, tmp_path) as it, start_kernel("shared name") as first:
        first.run("x = 'first'")
        with start_kernel("shared name") as second:
            told = second.run("x = 'second'").text
            assert "another kernel has this notebook's session open" in told
            there = {one["key"]: one for one in json.loads(it.say("ls", "--json"))["sessions"]}
            assert there["shared name"]["owner"]["pid"] == first.pid
            assert there["shared name (2)"]["owner"]["pid"] == second.pid
            assert "'shared name'" in it.say("create", "--name", "shared name", status=1)
            assert it.say("run", "x", "--session", "shared name") == "'first'\n"
            assert second.value("x") == "second"
        assert first.value("x") == "first"
