"""Many sessions, made and removed: disk, memory and everything else are as they were before."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import session_traces as traces
from tests.support.live_kernel import wait_until

from branchpoint_vmruntime.control_facts import OpenSession, from_json
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import disk_bytes
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.overview import overview
from branchpoint_vmruntime.owner import start_owner
from branchpoint_vmruntime.session_control import SessionControl

pytestmark = pytest.mark.vm

COMMAND = Path(sys.executable).with_name("branchpoint")
SESSIONS, CHECKPOINTS = 20, 5
BY_COMMAND = 4
AT_ONCE = 4
PATIENCE_S = 200
# What is kept of all sessions together: the books, what left machines, and what can be made anew.
STAYS = ("lineage.db", "ledger.db", "cache/")
# What is written of sessions in the ledger is kept; it is little.
GROWTH_BYTES = 1 << 20
WORK = "import os; blob = os.urandom(1 << 20); step = {}; open('step', 'w').write(str(step))"


@dataclass(frozen=True, kw_only=True)
class Traces:
    """All there is of a home: what is in it, by its bytes, its processes, what is mounted."""

    paths: dict[str, int]
    disk_bytes: int
    processes: tuple[int, ...]
    mounts: tuple[str, ...]
    shared_memory: frozenset[str]


def look(home: Home) -> Traces:
    """All of it; once more if a file went away meanwhile, as machines make and move them."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return _seen(home)


def _seen(home: Home) -> Traces:
    every = [*home.root.rglob("*"), *home.run.rglob("*")]
    paths = {str(path.relative_to(home.root)): path for path in every}
    kept = {name: path for name, path in paths.items() if not name.startswith(STAYS)}
    for path in kept.values():
        if path.is_file():
            # What a file takes is known once it is on the disk.
            sync_file(path)
    return Traces(
        paths={name: 0 if path.is_dir() else path.stat().st_size for name, path in kept.items()},
        disk_bytes=disk_bytes(path for path in kept.values() if not path.is_dir()),
        processes=tuple(processes(home)),
        mounts=tuple(line for line in mounts() if str(home.root) in line),
        # One with a blank in its name is a home of test_hosts.py.
        shared_memory=frozenset(
            path.name
            for path in Path("/dev/shm").glob("*branchpoint*")
            if not path.name.startswith("branchpoint ")
        ),
    )


def differences(before: Traces, after: Traces) -> list[object]:
    files = [before.paths.items() ^ after.paths.items()]
    return [*files, before.disk_bytes, after.disk_bytes, after.processes, after.mounts]


def mounts() -> list[str]:
    return Path("/proc/mounts").read_text().splitlines()


def processes(home: Home) -> list[int]:
    """Those, this one left out, that were told of the home: owners, machines, what they start."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                told = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(home.root) in told:
                found.append(int(place.name))
    return found


def say(*words: str) -> str:
    done = subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def facts(*words: str) -> Any:
    return json.loads(say(*words, "--json"))


def made_by_command() -> str:
    """A session with its checkpoints, as somebody makes it at a terminal."""
    made = say("create", "--name", "von Hand").strip()
    for step in range(CHECKPOINTS):
        say("run", WORK.format(step), "--session", made)
        say("checkpoint", f"step-{step}", "--session", made)
    return made


async def opened(home: Home, number: int) -> OpenSession:
    """Some by the command, some as programs do it."""
    if number < BY_COMMAND:
        told = await asyncio.to_thread(facts, "create", "--name", f"mit Befehl {number}")
        return from_json(OpenSession, told)
    return await start_owner(home, key=f"viele/{number}.ipynb", folder=home.root)


async def made(home: Home, number: int) -> str:
    """A session with its checkpoints: ended in one way or another, or still open."""
    owner = await opened(home, number)
    async with SessionControl(home.control(owner.id)) as session:
        for step in range(CHECKPOINTS - 1):
            await session.run(WORK.format(step))
            await session.checkpoint(f"step-{step}")
        await session.fork(1)
        match number % 5:
            case 0:
                await session.rollback("step-0")
            case 1:
                await session.keep("main-1")
                await session.end()
            case 2:
                await session.pause("main-1")
                await session.end(save=False)
            case 3:
                await asyncio.to_thread(traces.end, owner.pid, signal.SIGTERM)
            case _:
                await asyncio.to_thread(traces.end, owner.pid, signal.SIGKILL)
    return owner.id


async def make_all(home: Home) -> list[str]:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> str:
        async with free:
            if number == 0:
                return await asyncio.to_thread(made_by_command)
            return await made(home, number)

    return list(await asyncio.gather(*map(one, range(SESSIONS))))


def books_bytes(home: Home) -> int:
    """What the databases take; what is only logged beside them is written over by and by."""
    return home.database.stat().st_size + home.ledger.stat().st_size


def on_record_of(home: Home, sessions: list[str]) -> list[str]:
    """All that is in the lineage store of sessions, as SQL."""
    uri = f"{home.database.as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as store:
        return [row for row in store.iterdump() if any(session in row for session in sessions)]


def nobody_holds(folder: Path) -> bool:
    with locked(folder, wait=False):
        return True


@pytest.mark.timeout(900)
def test_of_many_sessions_that_were_made_and_removed_nothing_is_left(home: Home) -> None:
    # What the first session of a home makes for all of them is there before.
    say("rm", say("create", "--name", "vorher").strip())
    # What a kernel that was killed left half made may be of another module.
    say("sweep")
    before = look(home)
    assert before.processes == ()
    listed = [one["id"] for one in facts("ls")["sessions"]]
    books = books_bytes(home)

    sessions = asyncio.run(make_all(home))
    there = {one.id: one for one in overview(home).sessions if one.id in sessions}
    assert len(there) == SESSIONS
    assert all(one.checkpoints >= CHECKPOINTS for one in there.values())
    assert sum(one.own_bytes for one in there.values()) > 0
    meanwhile = look(home)
    assert len(meanwhile.processes) > 1
    assert meanwhile.disk_bytes - before.disk_bytes > SESSIONS * CHECKPOINTS << 20

    assert len(on_record_of(home, sessions)) > SESSIONS * CHECKPOINTS

    freed = facts("rm", *sessions)
    assert [one["session"]["id"] for one in freed] == sessions
    say("sweep")
    found = facts("ls")
    assert [one["id"] for one in found["sessions"]] == listed
    assert found["leaks"] == []
    assert wait_until(lambda: look(home) == before), differences(before, look(home))
    assert on_record_of(home, sessions) == []
    assert books_bytes(home) - books < GROWTH_BYTES
    folders = [home.live, home.layers, *home.layers.iterdir()]
    assert all(nobody_holds(folder) for folder in folders)
