"""The runtime without Jupyter: from a plain asyncio script, and what it does when things fail."""

import asyncio
import inspect
import json
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from branchpoint_vmruntime import Manifest, Runtime, checkpoint, workshop
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import (
    IncompatibleError,
    MachineStartError,
    StorageError,
    UnknownNameError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.restore import SavedMachine, Woken
from branchpoint_vmruntime.store import Layer

pytestmark = pytest.mark.vm

MOMENTS = 5
# The longest pause between two checkpoints while files are being written.
PAUSE_S = 1.0

WRITERS = """
import hashlib, os, threading
os.makedirs("files", exist_ok=True)
stop, written = threading.Event(), {"a": 0, "b": 0}
def write(name):
    while not stop.is_set():
        body = os.urandom(1000 + written[name] % 7 * 3000)
        path = f"files/{name}-{written[name] % 15}"
        with open(path + ".new", "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".new", path)
        written[name] += 1
threads = [threading.Thread(target=write, args=(name,)) for name in written]
for thread in threads:
    thread.start()
"""

CHECK = """
import subprocess
before = dict(written)
while any(written[name] == before[name] for name in written):
    pass
stop.set()
for thread in threads:
    thread.join()
os.sync()
open("/proc/sys/vm/drop_caches", "w").write("3")
whole = damaged = 0
for name in os.listdir("files"):
    if not name.endswith(".new"):
        data = open(f"files/{name}", "rb").read()
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            whole += 1
        else:
            damaged += 1
errors = subprocess.run("dmesg | grep -c 'EXT4-fs.*error'", shell=True, capture_output=True)
print(whole > 0, damaged, int(errors.stdout))
"""


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[OwnedSession]:
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        yield session


def with_session(home: Home, work: Callable[[OwnedSession], Coroutine[Any, Any, None]]) -> None:
    """Do something with a fresh session."""

    async def run() -> None:
        async with opened(home) as session:
            await work(session)

    asyncio.run(run())


async def text(branch: Branch, code: str) -> str:
    assert isinstance(branch, OwnedBranch)
    result = await branch.run(code)
    assert result.status == "ok", result
    return result.text.strip()


def layer(home: Home, session: OwnedSession, point: Checkpoint) -> Layer:
    return Layer(home.layers / session.record.id / point.id)


def test_the_example_in_the_docstring_does_what_it_shows(home: Home, tmp_path: Path) -> None:
    # Indented as written before Python 3.13, and not since.
    _, _, rest = inspect.cleandoc(Runtime.__doc__ or "").partition("::\n")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(rest.partition("\nWhat the host")[0]))
    done = subprocess.run(
        [sys.executable, "-P", script], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert re.findall(r"(?m)^main-(\d) 594$", done.stdout) == ["1", "2", "3"], done.stdout
    assert done.stdout.split()[-1] == "594"


def test_a_script_forks_runs_and_learns_the_cost(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        await session.current.run("numbers = iter(range(593, 700)); next(numbers)")
        loaded = await session.checkpoint("loaded")
        forks = await session.fork(2, start=loaded, names=["a", "b"])
        assert [await text(branch, "next(numbers)") for branch in forks.branches] == ["594"] * 2
        assert all(branch.cost.awake_ms > 0 for branch in forks)
        memory = [branch.memory() for branch in forks]
        assert all(use and use.own_bytes > 0 and use.shared_bytes > 0 for use in memory)
        await session.rollback(loaded)
        assert await text(session.current, "next(numbers)") == "594"
        assert [it.op for it in session.operations()].count("fork") == 2

    with_session(home, work)


def test_an_error_in_code_is_a_result_and_not_an_exception(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        result = await session.current.run("1 / 0")
        assert (result.status, result.error_name) == ("error", "ZeroDivisionError")
        command = await session.current.execute(["sh", "-c", "cat; exit 3"], stdin="hello")
        assert (command.status, command.stdout) == (3, "hello")

    with_session(home, work)


def test_one_fork_that_fails_is_reported_and_the_others_come_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workshop.restored

    def restored(
        saved: SavedMachine, folder: Path, identity: Identity, *, reseed: bool
    ) -> AbstractAsyncContextManager[Woken]:
        if identity.branch == "b":
            raise MachineStartError("made to fail")
        return real(saved, folder, identity, reseed=reseed)

    async def work(session: OwnedSession) -> None:
        await session.current.run("x = 42")
        report = await session.fork(3, names=["a", "b", "c"])
        assert [branch.name for branch in report] == ["a", "c"]
        assert [(it.name, str(it.error)) for it in report.failures] == [("b", "made to fail")]
        for branch in (session.current, *report.branches):
            assert await text(branch, "x") == "42"
        with pytest.raises(UnknownNameError):
            session.branch("b")

    monkeypatch.setattr(workshop, "restored", restored)
    # A machine that stands by is not started for the fork, so it could not be made to fail.
    monkeypatch.setattr(workshop, "STAND_BY_AFTER_S", 3600.0)
    with_session(home, work)


def test_a_checkpoint_with_damaged_devices_wakes_nobody_and_harms_nobody(home: Home) -> None:
    async def work(session: OwnedSession) -> None:
        await session.current.run("x = 42")
        good = await session.checkpoint("good")
        await session.current.run("x = 43")
        bad = await session.checkpoint("bad")
        devices = layer(home, session, bad).devices
        devices.write_bytes(devices.read_bytes()[: devices.stat().st_size // 2])
        report = await session.fork(2, start=bad)
        assert len(report.failures) == 2
        assert not report.branches
        with pytest.raises(Exception, match="saved machine could not be loaded"):
            await session.rollback(bad)
        assert await text(session.current, "x") == "43"
        await session.rollback(good)
        assert await text(session.current, "x") == "42"

    with_session(home, work)


@pytest.mark.parametrize(
    ("fact", "value"), [("qemu", "6.0.0 (another)"), ("vcpus", 3), ("image", "another")]
)
def test_a_checkpoint_of_a_different_machine_is_refused_by_name(
    home: Home, fact: str, value: str | int
) -> None:
    async def work(session: OwnedSession) -> None:
        await session.current.run("x = 42")
        point = await session.checkpoint("elsewhere")
        place = layer(home, session, point).folder / "machine.json"
        facts = json.loads(place.read_bytes())
        place.write_text(json.dumps({**facts, fact: value}))
        with pytest.raises(IncompatibleError, match=f"{fact} was .* and is ") as refusal:
            await session.rollback(point)
        assert str(value) in str(refusal.value)
        assert refusal.value.hint
        assert await text(session.current, "x") == "42"

    with_session(home, work)


def test_running_out_of_space_while_writing_leaves_nothing_and_harms_nobody(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    async def work(session: OwnedSession) -> None:
        await session.current.run("x = 42")
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write_layer", full)
            with pytest.raises(StorageError, match="disk is full"):
                await session.checkpoint("never")
        assert not list((home.layers / session.record.id).iterdir())
        assert await text(session.current, "x") == "42"
        again = await session.checkpoint("again")
        await session.current.run("x = 43")
        await session.rollback(again)
        assert await text(session.current, "x") == "42"

    with_session(home, work)


def test_files_being_written_at_random_moments_are_whole_in_forks_of_those_moments(
    home: Home,
) -> None:
    moments = random.Random(593)

    async def work(session: OwnedSession) -> None:
        await session.current.run(WRITERS)
        points: list[Checkpoint] = []
        for _ in range(MOMENTS):
            await asyncio.sleep(moments.uniform(0.1, PAUSE_S))
            points.append(await session.checkpoint())
        await session.current.run("stop.set()")
        for point in points:
            (fork,) = (await session.fork(1, start=point)).branches
            assert await text(fork, CHECK) == "True 0 0"
            await session.drop([fork.name])

    with_session(home, work)
