"""`branchpoint exec`, asking a session that another thread has open; commands run on this host."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.exec_guest import OneBranch, Unlimited

from branchpoint_cli.__main__ import main
from branchpoint_cli.attaching import raw
from branchpoint_vmruntime.control_facts import OpenSession, to_json
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.exec_control import exec_upgrade
from branchpoint_vmruntime.home import Home

SESSION = OpenSession(id="7f3c09d2ab41", key="/home/me/notebook.ipynb", pid=os.getpid())
PATIENCE_S = 120.0


async def session(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return to_json(SESSION)


@contextmanager
def opened(home: Home) -> Generator[None]:
    """A session that another thread has open."""
    serving, ending = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def own() -> None:
        branch = OneBranch()
        upgrades = {"exec": exec_upgrade(branch, Unlimited())}
        socket = home.control(SESSION.id)
        async with ControlServer(socket, {"session": session}, upgrades=upgrades):
            serving.set()
            await ending.wait()
        await branch.streams.end()

    def run() -> None:
        loop.run_until_complete(own())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert serving.wait(PATIENCE_S)
        yield
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Home]:
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    home = Home.default()
    home.ensure()
    with opened(home):
        yield home


def execute(folder: Path, *words: str) -> int:
    return main(["exec", "--cwd", str(folder), *words])


@pytest.mark.parametrize("before", [[], ["--"], ["--session", SESSION.id, "--branch", "main"]])
@pytest.mark.usefixtures("home")
def test_a_commands_output_errors_and_status_are_passed_through(
    tmp_path: Path, before: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shell = "printf 'out\\377'; echo err >&2; exit 7"
    assert execute(tmp_path, *before, "sh", "-c", shell) == 7
    assert capfdbinary.readouterr() == (b"out\xff", b"err\n")


@pytest.mark.usefixtures("home")
def test_options_of_the_command_are_its_own_and_it_gets_variables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = ["--env", "A=1=2", "--env", "B=", "printenv", "-0", "A", "B"]
    assert execute(tmp_path, *wanted) == 0
    assert capfd.readouterr().out == "1=2\0\0"


@pytest.mark.usefixtures("home")
def test_what_cannot_be_run_is_said_with_a_shells_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert execute(tmp_path, "no-such-thing") == 127
    assert capfd.readouterr().err == "✗ no-such-thing: there is no such command in the machine\n"


@pytest.mark.usefixtures("home")
def test_what_is_not_the_commands_own_status_is_255(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert execute(tmp_path, "--branch", "ridge", "ls") == 255
    assert "'ridge'" in capfd.readouterr().err
    assert execute(tmp_path, "--session", "aa0012345678", "ls") == 255
    assert "aa0012345678" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which command"),
        (["--"], "say which command"),
        (["-t", "ls"], "standard input is none"),
        (["--env", "A", "ls"], "'A' is not NAME=VALUE"),
        (["--env", "=A", "ls"], "'=A' is not NAME=VALUE"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["exec", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@contextmanager
def client(folder: Path, *command: str) -> "Generator[subprocess.Popen[bytes]]":
    """The command with both its ends piped; ended on leaving, if it still runs."""
    argv = [sys.executable, "-P", "-m", "branchpoint_cli", "exec", "--cwd", str(folder), *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("home")
def test_a_signal_is_the_commands_and_the_second_time_the_clients(tmp_path: Path) -> None:
    shell = "trap 'echo heard' TERM; echo begun; until test -e over; do sleep 0.05; done"
    with client(tmp_path, "sh", "-c", shell) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.terminate()
        assert process.stdout.readline() == b"heard\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 143
    (tmp_path / "over").touch()


@pytest.mark.usefixtures("home")
def test_a_command_whose_output_nobody_reads_is_told_so(tmp_path: Path) -> None:
    with client(tmp_path, "sh", "-c", "trap 'touch told; exit' PIPE; yes") as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_a_terminal_is_as_it_was_whatever_happens() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)

    def fail() -> None:
        with raw(theirs):
            assert termios.tcgetattr(theirs) != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert termios.tcgetattr(theirs) == before
    for fd in (ours, theirs):
        os.close(fd)
