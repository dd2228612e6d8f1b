"""The emulator's process: it ends with its owner, its end is told once, in words."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.process import QemuProcess

FOREVER = ("sleep", "1000")
OWNER = """
import asyncio, sys
from pathlib import Path
from branchpoint_vmruntime.process import QemuProcess

async def main():
    process = QemuProcess.start(["sleep", "1000"], pass_fds=[], log=Path(sys.argv[1]))
    print(process.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def start(folder: Path, argv: Sequence[str] = FOREVER, *, fds: Sequence[int] = ()) -> QemuProcess:
    """A process with its log in the folder."""
    return QemuProcess.start(argv, pass_fds=fds, log=folder / "qemu.log")


async def ended(process: QemuProcess) -> None:
    """Until it has ended by itself."""
    over = asyncio.Event()
    process.on_end(over.set)
    await over.wait()


def alive(pid: int) -> bool:
    """Whether there is such a process, and not just what is left of it."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@in_a_loop
async def test_a_process_is_ended_and_gone_when_end_returns(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert not process.ended
    await process.end()
    assert process.ended
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@in_a_loop
async def test_ending_twice_is_ending_once(tmp_path: Path) -> None:
    process = start(tmp_path)
    await asyncio.gather(process.end(), process.end())
    await process.end()
    process.kill()
    assert process.ended


@in_a_loop
async def test_its_end_is_told_to_each_watcher_once(tmp_path: Path) -> None:
    process = start(tmp_path)
    told: list[str] = []
    process.on_end(lambda: told.append("first"))
    process.on_end(lambda: told.append("second"))
    await process.end()
    await process.end()
    assert told == ["first", "second"]


@in_a_loop
async def test_who_watches_a_process_that_has_ended_is_told_at_once(tmp_path: Path) -> None:
    process = start(tmp_path)
    await process.end()
    told: list[bool] = []
    process.on_end(lambda: told.append(process.ended))
    assert told == [True]


@in_a_loop
async def test_an_end_of_its_own_is_noticed(tmp_path: Path) -> None:
    process = start(tmp_path, ["true"])
    await ended(process)
    assert process.ended


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["sh", "-c", "exit 3"], "QEMU ended with status 3"),
        (["sh", "-c", "kill -9 $$"], "QEMU was killed by signal 9"),
        (
            ["sh", "-c", "echo no memory >&2; exit 1"],
            "QEMU ended with status 1; it said: no memory",
        ),
        (["/no/such/program"], "/no/such/program"),
    ],
)
@in_a_loop
async def test_how_it_ended_is_told_in_words(tmp_path: Path, argv: list[str], words: str) -> None:
    process = start(tmp_path, argv)
    await ended(process)
    assert words in process.describe_end()


@in_a_loop
async def test_of_a_long_log_the_end_is_told(tmp_path: Path) -> None:
    process = start(tmp_path, ["sh", "-c", "seq 100000; echo the reason"])
    await ended(process)
    assert process.describe_end().endswith("the reason")
    assert len(process.describe_end()) < 3000


@in_a_loop
async def test_a_running_process_has_no_end_to_describe(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.describe_end() == "still running"
    await process.end()


@in_a_loop
async def test_it_inherits_the_descriptors_it_was_given_and_no_others(tmp_path: Path) -> None:
    given, kept = os.pipe()
    os.set_inheritable(kept, True)  # noqa: FBT003
    list_open = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done"
    process = start(tmp_path, ["sh", "-c", list_open], fds=[given])
    await ended(process)
    seen = (tmp_path / "qemu.log").read_text().split()
    os.close(given)
    os.close(kept)
    assert str(given) in seen
    assert str(kept) not in seen


def wait_until_gone(pid: int) -> None:
    """Fails after a time no healthy host needs."""
    patience = time.monotonic() + 120
    while alive(pid):
        assert time.monotonic() < patience, f"process {pid} outlived its owner"
        time.sleep(0.01)


def kill_its_owner(folder: Path, **environment: str) -> int:
    """Kill who started a process as soon as it has; the process's id."""
    argv = [sys.executable, "-P", "-c", OWNER, str(folder / "qemu.log")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, text=True, env=os.environ | environment) as owner:
        assert owner.stdout
        pid = int(owner.stdout.readline())
        owner.kill()
    return pid


def test_it_does_not_outlive_an_owner_that_is_killed(tmp_path: Path) -> None:
    wait_until_gone(kill_its_owner(tmp_path))


def test_it_does_not_outlive_an_owner_that_is_killed_while_it_starts(tmp_path: Path) -> None:
    slow = tmp_path / "setpriv"
    until_told = f"until test -e '{tmp_path}/go'; do sleep 0.02; done"
    slow.write_text(f'#!/bin/sh\n{until_told}\nexec {shutil.which("setpriv")} "$@"\n')
    slow.chmod(0o755)
    pid = kill_its_owner(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert alive(pid)
    (tmp_path / "go").touch()
    wait_until_gone(pid)


def test_an_interrupt_at_the_keyboard_does_not_reach_it(tmp_path: Path) -> None:
    async def check() -> None:
        process = start(tmp_path)
        assert os.getpgid(process.pid) == process.pid
        await process.end()

    asyncio.run(check())


@in_a_loop
async def test_what_ends_a_whole_group_of_processes_leaves_it_to_its_owner(tmp_path: Path) -> None:
    enough = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    process = start(tmp_path, ["sh", "-c", "kill -TERM $$; kill -HUP $$; kill -INT $$; exit 3"])
    await ended(process)
    assert process.describe_end() == "QEMU ended with status 3"
    assert not enough & signal.pthread_sigmask(signal.SIG_BLOCK, ())


@in_a_loop
async def test_it_may_have_as_many_files_open_as_the_host_lets_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
    try:
        process = start(tmp_path, ["sh", "-c", "ulimit -Sn"])
        await ended(process)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    assert (tmp_path / "qemu.log").read_text().strip() == allowed
