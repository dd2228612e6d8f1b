"""Hosts as they are: two users on one, odd places and surroundings, two openers of one notebook."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import StartKernel
from tests.support import session_traces as traces
from tests.support.guest_server import PORT, SERVER, ask
from tests.support.homes import lend_base, lend_images
from tests.support.live_kernel import qemu_processes, wait_until
from tests.support.other_user import NoOtherUserError, OtherUser, other_user
from tests.unit.storage.moving import IMAGE, furnished

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
    try:
        yield Commands(home, cwd)
    except BaseException:
        # Nobody's children, they would outlive a test that fails, and its home.
        for pid in (*traces.owners(home), *qemu_processes(home.root)):
            traces.end(pid, signal.SIGKILL)
        raise
    assert wait_until(lambda: not qemu_processes(home.root)), "a machine outlived its owner"


class Commands:
    """Says `branchpoint` with words, in a home and a folder; `through` other programs, if any."""

    def __init__(self, home: Home, cwd: Path, *through: str) -> None:
        self._home = home
        self._cwd = cwd
        self._through = through

    def say(self, *words: str, status: int = 0, **environment: Any) -> str:
        """What it wrote; it must end with that status. Its standard input is closed."""
        command = [*self._through, sys.executable, "-P", "-m", "branchpoint_cli", *words]
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


@pytest.fixture(scope="module")
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


@pytest.mark.timeout(1800)
def test_a_home_in_memory_with_odd_names_is_used_and_moved_from_in_a_locale_of_c(
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
    file = notebooks / "Datei ü.bp"
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
            it.say("fork", "--names", "zweig", **plain)
            assert it.say("run", "x + '!'", "--branch", "zweig", **plain) == "'ü!'\n"
            it.say("drop", "zweig", **plain)
            it.say("run", SERVER, **plain)
            served = ask(forwarded(it, **plain))
            it.say("pause", **plain)
            it.say("resume", **plain)
            assert it.say("run", "x", **plain) == "'ü'\n"
            it.say("checkpoint", "läuft", **plain)
            it.say("export", "läuft", "-o", str(file), **plain)
            assert "nothing is damaged" in it.say("verify", **plain)
            it.say("rm", made, **plain)
            assert "no sessions yet" in it.say("ls", **plain)
        assert carried_on_elsewhere(home, file, odd.root.parent / "ein zweites", **plain) == {
            **served,
            "asked": served["asked"] + 1,
        }
    finally:
        subprocess.run(["rm", "-rf", root.parents[1]], check=True)


def carried_on_elsewhere(home: Home, file: Path, root: Path, **environment: Any) -> dict[str, Any]:
    """What the server in an exported machine says once it was imported in another home."""
    other = Home(root, root / "run")
    lend_images(home, other)
    lend_base(home, other)
    another_qemu = file.parent / "qemu, an other"
    another_qemu.write_text('#!/bin/sh\necho "QEMU emulator version 99.0.0 (an other build)"\n')
    another_qemu.chmod(0o755)
    with commands(other, file.parent) as it:
        refused = it.say(
            "import",
            file.name,
            status=1,
            BRANCHPOINT_QEMU=str(another_qemu),
            BRANCHPOINT_ACCEL="tcg",
            **environment,
        )
        assert re.search(r"qemu was .* and is 99\.0\.0 \(an other build\)", refused), refused
        assert "no sessions yet" in it.say("ls", **environment)
        it.say("import", file.name, "--name", "zwei ü", **environment)
        it.say("resume", "--session", "zwei ü", **environment)
        answer = ask(forwarded(it, **environment))
        assert it.say("run", "x", **environment) == "'ü'\n"
        it.say("rm", "zwei ü", **environment)
    return answer


def forwarded(it: Commands, **environment: Any) -> int:
    """The port of this host at which the server in the only session's machine answers."""
    return json.loads(it.say("forward", str(PORT), "--json", **environment))["host_port"]


def test_a_home_that_is_mounted_read_only_can_be_read_and_the_rest_is_refused_in_words(
    tmp_path: Path,
) -> None:
    saved = furnished(tmp_path / "home")
    saved.export(tmp_path / "before.bp")
    left = saved.home.live / saved.session.id / "overlay.qcow2"
    left.parent.mkdir()
    left.touch()
    before = sorted(tmp_path.glob("home/**/*"))
    it = Commands(saved.home, tmp_path, *read_only(saved.home.root))
    assert saved.session.id in it.say("ls")
    assert "trained" in it.say("tree")
    assert IMAGE[:12] in it.say("image")
    assert "nothing has left a machine" in it.say("ledger")
    assert "main" in it.say("costs")
    # Its disks are made up, and taken for damaged: that is found out by reading.
    assert "its disk cannot be read" in it.say("verify", status=1)
    it.say("export", "loaded", "-o", "after.bp")
    assert (tmp_path / "after.bp").exists()
    # Without its table, whose columns break the words where a path is long.
    assert f"{saved.home.root} cannot be written" in it.say("doctor", "--json", status=1)
    for words in ("create", "import before.bp", "resume", "gc", "gc --dry-run", "sweep", "setup"):
        told = it.say(*words.split(), status=1)
        assert f"{saved.home.root} cannot be written" in told
        assert "BRANCHPOINT_HOME" in told
    told = it.say("rm", saved.session.id, status=1)
    assert f"{saved.home.database} cannot be used: Read-only file system\n" in told
    assert [path for path in before if not path.exists()] == []


def read_only(folder: Path) -> tuple[str, ...]:
    """What to say before a command for which a folder is mounted read-only."""
    mapped = () if os.getuid() == 0 else ("--map-root-user",)
    mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    through = ("unshare", "--mount", *mapped, "sh", "-c", mounts, str(folder))
    try:
        subprocess.run([*through, "true"], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing can be mounted here for a command alone: {error.stderr.strip()}")
    return through


def test_a_home_whose_mode_was_taken_away_can_be_read_and_is_not_given_it_back(
    other: OtherUser,
) -> None:
    other.home.root.chmod(0o500)
    try:
        assert "no sessions yet" in other.say("ls")
        other.say("image")
        for words in ("create", "gc", "sweep"):
            done = other.run(other.python, "-P", "-m", "branchpoint_cli", words)
            assert done.returncode == 1, done
            assert f"{other.home.root} cannot be written" in done.stderr
            assert "BRANCHPOINT_HOME" in done.stderr
        assert other.home.root.stat().st_mode & 0o777 == 0o500
    finally:
        other.home.root.chmod(0o700)


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
